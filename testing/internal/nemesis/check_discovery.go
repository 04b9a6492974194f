// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// registrations is how often a process was registered, or has changed what it registered.
func registrations(r *roundReport, spec lockSpec) (n int) {
	for _, events := range r.events {
		for _, e := range events {
			if e.Lock == spec.Name && (e.Kind == joined || e.Kind == updated) {
				n++
			}
		}
	}
	return n
}

// wrongPresences returns a check of all registrations in a folder. It relies on the servers
// throughout: a watcher has its picture from them.
func wrongPresences(folder func(lockSpec) string) func(*roundReport, lockSpec) []violation {
	return func(r *roundReport, spec lockSpec) []violation {
		return slices.Concat(wrongRegistrations(r, spec), outlivers(r, spec, folder(spec)))
	}
}

// wrongRegistrations finds watchers and servers that, after all was healed, did not have exactly
// what the live processes had registered.
func wrongRegistrations(r *roundReport, spec lockSpec) (found []violation) {
	var want []string
	var pictures []event
	for _, client := range slices.Sorted(maps.Keys(r.events)) {
		for _, e := range r.events[client] {
			switch {
			case e.Lock != spec.Name:
			case e.Kind == stands:
				want = append(want, e.Value)
			case e.Kind == viewed, e.Kind == listed:
				pictures = append(pictures, e)
			}
		}
	}
	for _, e := range pictures {
		whose := "the server"
		if e.Kind == viewed {
			whose = "the watcher of " + e.Client
		}
		have := slices.DeleteFunc(strings.Split(e.Value, "\n"), func(entry string) bool { return entry == "" })
		for _, entry := range have {
			if !slices.Contains(want, entry) {
				found = append(found, violation{
					promise: noGhost, round: r, at: e.At, what: fmt.Sprintf("%s: %s has %s, which no live process has registered", spec.Name, whose, entry),
				})
			}
		}
		for _, entry := range want {
			if !slices.Contains(have, entry) {
				found = append(found, violation{
					promise: noMissing, round: r, at: e.At, what: fmt.Sprintf("%s: %s does not have %s, which a live process has registered", spec.Name, whose, entry),
				})
			}
		}
	}
	return found
}

// term is the time from the call that registers to the confirmation that there is nothing
// any more, in milliseconds of the wall clock.
type term struct{ from, to int64 }

// termsOf are the terms of each client, by the paths of their znodes. One whose process was
// killed, or did not come to its end, ends some time after the last fault.
func termsOf(r *roundReport, spec lockSpec, folder string) map[string]map[string][]term {
	last := r.wall(r.record.Calm + int64(settleTime))
	all := make(map[string]map[string][]term)
	for client, events := range r.events {
		own := make(map[string][]term)
		for _, e := range events {
			if e.Lock != spec.Name {
				continue
			}
			node := folder + "/" + e.Value
			switch e.Kind {
			case joining:
				own[node] = append(own[node], term{r.wall(e.At), last})
			case gone:
				if terms := own[node]; len(terms) > 0 {
					terms[len(terms)-1].to = r.wall(e.At)
				}
			default: // neither begins nor ends one
			}
		}
		all[client] = own
	}
	return all
}

// outlivers finds registrations whose znodes were there, by the servers' log, before they
// were asked for, or after the server had confirmed their end.
func outlivers(r *roundReport, spec lockSpec, folder string) (found []violation) {
	if r.log == nil || r.record.WallOffset == 0 {
		return nil
	}
	terms, clients := termsOf(r, spec, folder), r.clientsOfSessions()
	for i, e := range r.eras {
		for _, n := range e.log.all {
			if path.Dir(n.path) == folder && !r.isOver(i, n) && !inTerm(n, r.endIn(i, n), terms, clients) {
				found = append(found, violation{promise: noGhost, round: r, what: fmt.Sprintf(
					"%s: %s of session %#x, created by %#x, was there before its process had asked for it, or after its end",
					spec.Name, n.path, n.session, n.czxid)})
			}
		}
	}
	return found
}

// isOver reports whether the log of the era before has judged a node already: a backup had it, and it was gone when
// clients could reach the restored servers, which have ended its session.
func (r *roundReport) isOver(era int, n *lockNode) bool {
	return era > 0 && n.czxid <= r.eras[era].base && n.deleted != 0 && n.ended <= r.wall(r.eras[era-1].until)+1
}

// endIn is when a node was gone by the log of an era. What was never deleted was there until the servers were killed.
func (r *roundReport) endIn(era int, n *lockNode) int64 {
	switch {
	case n.deleted != 0:
		return n.ended
	case era < len(r.eras)-1:
		return r.wall(r.eras[era].down)
	default:
		return forever
	}
}

// inTerm reports whether a node that has ended then was there within a term of its process.
func inTerm(n *lockNode, ended int64, terms map[string]map[string][]term, clients map[int64]string) bool {
	for client, own := range terms {
		within := func(t term) bool { return n.created >= t.from-1 && ended <= t.to+1 } // both are cut off
		if of, known := clients[n.session]; (!known || of == client) && slices.ContainsFunc(own[n.path], within) {
			return true
		}
	}
	return false
}

// clientsOfSessions are the processes that had the sessions.
func (r *roundReport) clientsOfSessions() map[int64]string {
	all := make(map[int64]string)
	for client, events := range r.events {
		for _, e := range events {
			if e.Kind == connected {
				all[e.Session] = client
			}
		}
	}
	return all
}
