package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// phantom is a node that one server has and the others have not.
type phantom struct {
	path    string
	servers []string // the hosts of those that have it; nil if the record does not tell
}

// phantoms are all that there were in the end.
func (r *roundReport) phantoms() (all []phantom) {
	for _, left := range []leftovers{r.record.Left, r.record.After} {
		for _, node := range left.Phantoms {
			p := phantom{path: node}
			for host, nodes := range left.Haunted {
				if slices.Contains(nodes, node) {
					p.servers = append(p.servers, host)
				}
			}
			all = append(all, p)
		}
	}
	return all
}

// diverged reports whether the servers did not have the same nodes in the end.
func (r *roundReport) diverged() bool {
	return len(r.record.Left.Phantoms)+len(r.record.After.Phantoms) > 0
}

// faultsOfServers tells what the servers of a round have lost, or kept for themselves: nothing that a
// client can help. It also tells of what the record does not say, and whoever may be concerned is excused for.
func faultsOfServers(r *roundReport) (told []string) {
	there := make(map[string]bool)
	for _, values := range r.record.Sets {
		for _, value := range values {
			there[value] = true
		}
	}
	updates := 0
	for _, events := range r.events {
		for _, e := range events {
			if e.Kind == appended && e.Outcome == accepted && !there[e.Value] && r.lostByServers(e.Value) {
				updates++
			}
		}
	}
	nodes := slices.DeleteFunc(slices.Concat(r.record.Left.Nodes, r.record.After.Nodes), func(n string) bool { return !r.resurrected(n) })
	for _, p := range r.phantoms() {
		nodes = append(nodes, p.path)
	}
	if len(nodes) > 0 {
		told = append(told, fmt.Sprintf("fault of the servers in round %s: %d nodes that they had deleted, or that one of them had and the others had not, such as %s",
			r.record.Folder, len(nodes), nodes[0]))
	}
	if updates > 0 {
		told = append(told, fmt.Sprintf("fault of the servers in round %s: %d updates that a majority has in its logs were not there in the end, "+
			"and nobody has written over them who could have read them", r.record.Folder, updates))
	}
	return append(told, unknowns(r)...)
}

// unknowns tells of excuses that were given because an older record does not say enough to refuse them.
func unknowns(r *roundReport) (told []string) {
	voids := slices.ContainsFunc(r.record.Faults, func(f faultRecord) bool { return len(f.Voids) > 0 })
	if (voids || r.diverged()) && !r.locates() {
		told = append(told, fmt.Sprintf("the record of round %s does not tell which client was connected to which server: "+
			"what a server that was cut off, or has nodes of its own, excuses for its clients is excused for all", r.record.Folder))
	}
	if left := r.record.Left; r.diverged() && left.Nodes == nil && left.Ephemerals+left.LockNodes > 0 {
		told = append(told, fmt.Sprintf("the record of round %s does not name the %d ephemeral nodes that a majority of the servers still had: "+
			"those count that were there by their logs", r.record.Folder, left.Ephemerals))
	}
	return told
}

// wait is an acquisition that has failed.
type wait struct {
	client   string
	from, to int64
}

// lastWaits are the last acquisitions of a lock by the workers of a client, if they have failed.
func (r *roundReport) lastWaits(client, lock string) (all []wait) {
	last := make(map[string]wait) // by worker, whose name is in those of its calls
	for _, e := range r.events[client] {
		if specName(e.Lock) != lock {
			continue
		}
		worker := path.Dir(acquisition(e.Hold))
		switch e.Kind {
		case called:
			last[worker] = wait{client: client, from: e.At}
		case acquired:
			delete(last, worker)
		case failed:
			if w, ok := last[worker]; ok {
				w.to = e.At
				last[worker] = w
			}
		default: // neither begins nor ends one
		}
	}
	for _, w := range last {
		if w.to != 0 {
			all = append(all, w)
		}
	}
	return all
}

// inVain reports whether a client could not get a lock in the end, both named as in the record, because
// it waited for a phantom.
func (r *roundReport) inVain(stuck string) bool {
	client, lock, _ := strings.Cut(stuck, " ")
	i := slices.IndexFunc(r.record.Locks, func(spec lockSpec) bool { return spec.Name == lock })
	if i < 0 {
		return false
	}
	folders := r.record.Locks[i].folders()
	ahead := slices.DeleteFunc(r.phantoms(), func(p phantom) bool { return !slices.Contains(folders, path.Dir(p.path)) })
	waits := r.lastWaits(client, lock)
	for _, w := range waits {
		if !slices.ContainsFunc(ahead, func(p phantom) bool { return r.mayReach(client, p.servers, w.from, w.to) || r.behind(w, p) }) {
			return false
		}
	}
	return len(waits) > 0
}

// givenUp is how long before a wait ended somebody who waits for a phantom must still have been ahead. All
// give up at about the same time.
const givenUp = time.Second

// behind reports whether, by the log, a wait was behind another client that was connected to the server
// with the phantom, and so could not come to its turn.
func (r *roundReport) behind(w wait, p phantom) bool {
	if r.log == nil || r.record.WallOffset == 0 || r.log.queues[path.Dir(p.path)] == nil {
		return false
	}
	queue := r.log.queues[path.Dir(p.path)]
	for _, own := range queue.nodes {
		if r.clients[own.session] != w.client || own.deleted == 0 || own.ended < r.wall(w.from) || own.ended > r.wall(w.to+clockTolerance) {
			continue
		}
		for _, other := range queue.ahead(own.czxid, own.ended-givenUp.Milliseconds()) {
			client := r.clients[other.session]
			if client != "" && client != w.client && r.mayReach(client, p.servers, w.from, w.to) {
				return true
			}
		}
	}
	return false
}
