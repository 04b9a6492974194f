// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

// losses returns what the servers of a round have provably lost although they had committed it, and had
// acknowledged most of it. As a rule there is none. A client cannot make up such a proof:
//
//   - nodes on which the servers do not agree, long after all is over;
//   - nodes that they have in the end, and had deleted by the logs of a majority before the last fault was over;
//   - deletions that a server had acknowledged to a client, and that are not in the logs of a majority up to then;
//   - updates of a set that a majority has in its logs, and that no client has written over (setlog.go);
//   - nodes that a majority has in its logs, and whose folder a later leader deleted or counted without them;
//   - holds by nodes that no majority has in its logs, but at least one server: nodes whose creation was
//     acknowledged, and then cut off a log when another server became leader.
//
// If servers lose a deletion, a lock's old holder is back in its queue. If they lose a creation, they let
// the next contender in. No lock can keep its promises on such servers. So the round is void: only
// what the clients know among themselves is judged, and the campaign plays another round instead.
func (r *roundReport) losses() (told []string) {
	tell := func(what string, all []string) {
		if len(all) > 0 {
			told = append(told, fmt.Sprintf("%d %s, such as %s", len(all), what, all[0]))
		}
	}
	tell("nodes on which the servers do not agree", slices.Concat(r.record.Left.Phantoms, r.record.After.Phantoms))
	tell("nodes that they had deleted", r.resurrected())
	tell("deletions that were undone", r.undone())
	tell("updates that a majority has in its logs, and that are not there", r.forgotten())
	tell("nodes that a later leader did not have", r.overlooked())
	tell("holds by nodes that were cut off the logs", r.cutOff())
	return told
}

// resurrected are the nodes that the servers had in the end, and a majority of them, by their logs, had
// deleted before the last fault was over.
func (r *roundReport) resurrected() (nodes []string) {
	if r.log == nil || r.record.WallOffset == 0 {
		return nil
	}
	for _, node := range r.record.Left.Nodes {
		if n := r.log.nodes[node]; n != nil && n.deleted != 0 && n.ended < r.wall(r.record.Calm) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// undone are the nodes whose deletion a server had acknowledged, and that are there at that moment, by the logs
// of a majority. The paths of most come once; one that was created again since says nothing.
func (r *roundReport) undone() (nodes []string) {
	if r.log == nil {
		return nil
	}
	for _, events := range r.events {
		for _, e := range events {
			if e.Kind != deleted {
				continue
			}
			if n := r.logAt(e.At).nodes[e.Node]; n != nil && n.czxid < e.Zxid && (n.deleted == 0 || n.deleted > e.Zxid) {
				nodes = append(nodes, e.Node)
			}
		}
	}
	slices.Sort(nodes)
	return nodes
}

// forgotten are the accepted updates of sets that the servers have lost.
func (r *roundReport) forgotten() (values []string) {
	if r.log == nil {
		return nil
	}
	there := make(map[string]bool)
	for _, set := range r.record.Sets {
		for _, value := range set {
			there[value] = true
		}
	}
	for _, events := range r.events {
		for _, e := range events {
			if e.Kind == appended && e.Outcome == accepted && !there[e.Value] && r.log.sets.forgotten(e.Value) {
				values = append(values, e.Value)
			}
		}
	}
	slices.Sort(values)
	return values
}

// overlooked are the nodes that a majority has in its logs, and that a later leader did not have: it deleted
// their folder, or counted its children without them.
func (r *roundReport) overlooked() (nodes []string) {
	if r.log == nil {
		return nil
	}
	for _, e := range r.eras {
		nodes = append(nodes, e.log.overlooked...)
	}
	return slices.Compact(slices.Sorted(slices.Values(nodes))) // what the backup had is in several logs
}

// cutOff are the nodes of holds that only a minority of the servers has in its logs.
func (r *roundReport) cutOff() (nodes []string) {
	if r.log == nil {
		return nil
	}
	for _, h := range r.holds {
		if log := r.logAt(h.acquired); log.nodes[h.node] == nil && log.minority[h.node] {
			nodes = append(nodes, h.node)
		}
	}
	return nodes
}
