// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// clockTolerance is by how much the wall clock, read once in a round, and the monotonic one
// may have moved against each other.
const clockTolerance = int64(2 * time.Millisecond)

// serverTokens finds holds whose token is not the czxid of a node that their session has
// created in the folder of the lock. The node of a hold is that one, or, if a writer has become
// a reader, a later one of the same session.
func serverTokens(r *roundReport) (found []violation) {
	if r.log == nil {
		return nil
	}
	byCzxid := make(map[*transactionLog]map[int64][]*lockNode) // one transaction can create several
	for _, e := range r.eras {
		byCzxid[e.log] = make(map[int64][]*lockNode)
		for _, n := range e.log.all {
			byCzxid[e.log][n.czxid] = append(byCzxid[e.log][n.czxid], n)
		}
	}
	for _, h := range r.holds {
		log := r.logAt(h.acquired)
		if what := wrongNode(h, log.nodes[h.node], byCzxid[log][h.token]); what != "" {
			found = append(found, violation{promise: risingTokens, round: r, at: h.acquired, holds: []*hold{h}, what: what})
		}
	}
	return found
}

// wrongNode says what is wrong with the node of a hold, if something is.
func wrongNode(h *hold, node *lockNode, sameToken []*lockNode) string {
	switch {
	case node == nil:
		return "the servers have never had the node of this hold"
	case h.session != 0 && node.session != h.session:
		return fmt.Sprintf("the node of this hold is of session %#x", node.session)
	case node.czxid == h.token:
		return ""
	case !h.shared:
		return fmt.Sprintf("the node of this hold has czxid %#x", node.czxid)
	}
	for _, n := range sameToken {
		if n.session == node.session && path.Dir(n.path) == path.Dir(h.node) && n.czxid < node.czxid {
			return ""
		}
	}
	return fmt.Sprintf("the node of this hold has czxid %#x, and no node of its session has its token", node.czxid)
}

// serverOrder finds holds that were granted too early: the servers still had as many nodes of other
// sessions ahead as there are permits, and had not begun to delete them. A client hands on to itself
// while its deletion is on the way, so nodes of the same session do not count.
//
// The token is the place in the queue: a writer that has become a reader keeps its token.
//
// The leader logs when it begins a deletion, so no client can know of the deletion before then.
func serverOrder(r *roundReport) (found []violation) {
	if r.log == nil || r.record.WallOffset == 0 {
		return nil
	}
	for _, h := range r.holds {
		log := r.logAt(h.acquired)
		own := log.nodes[h.node]
		if own == nil {
			continue
		}
		granted := r.wall(h.acquired + clockTolerance)
		others := slices.DeleteFunc(log.queues[path.Dir(h.node)].ahead(h.token, granted), func(ahead *lockNode) bool {
			return ahead.session == own.session || !excludes(ahead.path, h)
		})
		if len(others) < max(h.spec.Permits, 1) {
			continue
		}
		broken := noOverlap
		if h.spec.Permits > 0 {
			broken = withinPermits
		}
		found = append(found, violation{
			promise: broken, round: r, at: h.acquired, holds: []*hold{h},
			what: fmt.Sprintf("%s was granted before %s of session %#x was deleted, behind %d in all", h.lock, others[0].path, others[0].session, len(others)),
		})
	}
	return found
}

// excludes reports whether the node of another keeps this one from having the lock: one that
// was made by the same recipe, and not a reader's if both are readers.
func excludes(other string, h *hold) bool {
	const reader = "__READ__"
	if _, queued := sequence(other); !queued {
		return false
	}
	kind, own := recipeName(other), recipeName(h.node)
	if h.shared {
		return kind != own
	}
	return kind == own || kind == reader
}

// recipeName is what a recipe calls its nodes: what stands between the UUID and the
// number, such as "lock-".
func recipeName(node string) string {
	const uuid, number = len("_c_01234567-89ab-cdef-0123-456789abcdef-"), len("0123456789")
	name := path.Base(node)
	if !strings.HasPrefix(name, "_c_") || len(name) < uuid+number {
		return ""
	}
	return name[uuid : len(name)-number]
}
