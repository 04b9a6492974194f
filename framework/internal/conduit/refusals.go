// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"maps"
	"time"
)

// refusals are the addresses that have refused the client, and have not served it since. Servers that are
// given another configuration one by one may differ, so the client ends only when all have refused it.
type refusals struct {
	by       map[target]bool
	admitted bool          // a server has served the client
	since    time.Time     // the first refusal after that; zero for none
	rounds   int           // refusals since then with which all had refused
	until    time.Time     // the end of the patience of a client that was admitted
	ceiling  time.Duration // of the pauses after them
	excused  int           // refusals since then of credentials that a mechanism had kept
}

// haveAllRefused notes an address that has refused the client, and reports whether all have.
func (h *hosts) haveAllRefused(by target) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refuseLocked(by)
}

func (h *hosts) refuseLocked(by target) (all bool) {
	h.clean.Store(false)
	if h.refused.by == nil {
		h.refused.by = make(map[target]bool)
	}
	h.refused.by[by] = true
	targets := h.targetsLocked()
	maps.DeleteFunc(h.refused.by, func(t target, _ bool) bool { return !targets[t] && t != by })
	for t := range targets {
		if !h.refused.by[t] {
			return false
		}
	}
	return true
}

// noteRefusal notes a refusal. It reports whether all addresses have refused, and whether the client has nothing
// to wait for then: it was never admitted, or has been refused for as long as its patience. The first refusals of a client that
// was admitted prove nothing about its credentials. A server may have started with half of its configuration.
// With own no server will do. The ceiling is of the pauses, which begin once all have refused.
func (h *hosts) noteRefusal(by target, own bool, patience, ceiling time.Duration) (all, final bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &h.refused
	if all = h.refuseLocked(by) || own; all {
		r.rounds++
	}
	if r.since.IsZero() {
		r.since = time.Now()
	}
	r.ceiling, r.until = ceiling, r.since.Add(patience)
	return all, all && (!r.admitted || !time.Now().Before(r.until))
}

// excuse reports whether a refusal of credentials that a mechanism had kept does not count. It may be so once for each
// address before the client is admitted again.
func (h *hosts) excuse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clean.Store(false)
	h.refused.excused++
	return h.refused.excused <= len(h.targetsLocked())
}

// noteAdmission notes that an address serves the client.
func (h *hosts) noteAdmission(by target) {
	if h.clean.Load() {
		return // the usual case takes no lock
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.refused.by, by)
	h.refused = refusals{by: h.refused.by, admitted: true}
	h.clean.Store(len(h.refused.by) == 0)
}

// forget notes that an address that has refused may be another server now.
func (h *hosts) forget(t target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.refused.by, t)
}
