// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
)

// hold is one acquisition that ended well, put together from the events of its
// client and from what was done to it from outside. Times are of the monotonic clock; 0
// is never.
type hold struct {
	id     string
	client string // the process
	owner  string
	spec   lockSpec
	lock   string // spec.Name, or the name of a multi-lock's member

	shared  bool
	token   int64
	node    string
	session int64

	called   int64
	acquired int64

	lastValid int64 // the last moment at which the holder found it valid
	lost      int64 // when the holder was told that it was not any more
	releasing int64
	released  int64
	failed    string // the error of Release

	sessionOver bool // it has ended with its session, as far as its holder knows

	// outside is the first moment at which something that is no fault of the
	// lock may have ended the hold before its holder could know: its process was
	// stopped or killed, its node was deleted by hand, its session was closed by
	// somebody else, or its error policy does not promise anything.
	outside int64
}

// validUntil is the last moment at which the holder looked, found the lock held, and had
// reason to rely on it. It is before the acquisition if there is none.
func (h *hold) validUntil() int64 {
	if h.outside != 0 {
		return min(h.lastValid, h.outside)
	}
	return h.lastValid
}

// endedBy is a moment at which the hold was over: its holder had seen the end of it, or
// its process was gone.
func (h *hold) endedBy() int64 {
	switch {
	case h.lost != 0:
		return h.lost
	case h.released != 0:
		return h.released
	default:
		return forever
	}
}

// forever is later than all that is recorded.
const forever = int64(1) << 62

// holds puts the holds of one client's events together, in the order of acquisition.
func holds(events []event, specs map[string]lockSpec) ([]*hold, error) {
	var all []*hold
	byID := make(map[string]*hold)
	for _, e := range events {
		if e.Hold == "" || e.Kind == called || e.Kind == failed {
			continue
		}
		if e.Kind == acquired {
			spec, ok := specs[specName(e.Lock)]
			if !ok || byID[e.Hold] != nil {
				return nil, fmt.Errorf("nemesis: hold %s of lock %q is of an unknown lock, or there are two of this name", e.Hold, e.Lock)
			}
			h := &hold{
				id: e.Hold, client: e.Client, owner: e.Owner, spec: spec, lock: e.Lock, shared: e.Shared,
				token: e.Token, node: e.Node, session: e.Session, called: e.Called, acquired: e.At, lastValid: e.At,
			}
			byID[h.id] = h
			all = append(all, h)
			continue
		}
		h := byID[e.Hold]
		if h == nil {
			return nil, fmt.Errorf("nemesis: %s of hold %s, which was not acquired", e.Kind, e.Hold)
		}
		h.add(e)
	}
	return all, nil
}

// add tells the hold of an event after its acquisition.
func (h *hold) add(e event) {
	h.lastValid, h.sessionOver = max(h.lastValid, e.LastValid), h.sessionOver || e.SessionOver
	switch e.Kind {
	case lost:
		h.lost = e.At
	case releasing:
		h.releasing = e.At
	case released:
		h.released, h.failed = e.At, e.Error
	default: // changes nothing
	}
}

// specName returns the name of the spec that a lock belongs to. All members of a multi-lock
// belong to one spec.
func specName(lock string) string {
	name, _, _ := strings.Cut(lock, "#")
	return name
}

// acquisition is what all holds of one call have in common: a call may acquire several leases.
func acquisition(hold string) string {
	name, _, _ := strings.Cut(hold, "#")
	return name
}

// faultRecord is what was done to the ensemble or its clients, and for how long.
type faultRecord struct {
	Fault  string `json:"fault"` // its id, such as N4
	Name   string `json:"name"`
	Detail string `json:"detail"`          // whom it hit
	Error  string `json:"error,omitempty"` // why it could not be done
	Start  int64  `json:"start"`           // before it began to take effect
	End    int64  `json:"end"`             // after it was undone

	// Clients are the processes that were stopped, or Killed. They are hurt until the End only.
	Clients []string `json:"clients,omitempty"`
	Killed  bool     `json:"killed,omitempty"`

	// Nodes are the znodes that were deleted by hand, and Sessions those that were
	// closed by somebody else.
	Nodes    []string `json:"nodes,omitempty"`
	Sessions []int64  `json:"sessions,omitempty"`

	// Guarded says that it was done by somebody without rights to what belongs to others,
	// and Refused that the servers have not let it happen, as they must.
	Guarded bool `json:"guarded,omitempty"`
	Refused bool `json:"refused,omitempty"`

	// Backup is when a backup began from which all servers were restored, Down when they had been killed for
	// that, and Up when clients could reach the restored servers. Log is the folder of the logs that they had at
	// Down. What was acknowledged between Backup and Down, and is in these logs only, is gone.
	Backup int64  `json:"backup,omitempty"`
	Down   int64  `json:"down,omitempty"`
	Up     int64  `json:"up,omitempty"`
	Log    string `json:"log,omitempty"`

	// Servers are the hosts of the servers that were cut off or fell silent, one at a time. Records of older
	// campaigns do not have them. Voids are the error policies that promise nothing to their clients while it
	// lasts, and for a session timeout after it.
	Servers []string                `json:"servers,omitempty"`
	Voids   []framework.ErrorPolicy `json:"voids,omitempty"`
}

// endFromOutside sets outside of every hold that a fault may have ended without any
// fault of the lock. A fault has effects for a session timeout after its end, but not on a node
// that was created after it: that the servers have done this shows that they know the session.
func (r *roundReport) endFromOutside() {
	asked := make(map[string]int64) // when each node was asked for, which several holds may share
	for _, h := range r.holds {
		if at, known := asked[h.node]; !known || h.called < at {
			asked[h.node] = h.called
		}
	}
	for _, f := range r.record.Faults {
		until := f.End + r.record.SessionTimeout
		for _, h := range r.holds {
			if h.acquired > until || asked[h.node] > f.End || h.endedBy() < f.Start || !r.mayEnd(f, h) {
				continue
			}
			if h.outside == 0 || f.Start < h.outside {
				h.outside = f.Start
			}
		}
	}
}

// mayEnd reports whether the fault, if it comes while the hold lasts, takes away
// what the lock promises to its holder.
func (r *roundReport) mayEnd(f faultRecord, h *hold) bool {
	switch {
	case slices.Contains(f.Nodes, h.node) && !r.deletedByOwner(h), slices.Contains(f.Sessions, h.session):
		return true
	case slices.Contains(f.Voids, h.spec.Policy) && r.mayReach(h.client, f.Servers, f.Start, f.End):
		return true
	case h.spec.Policy == framework.SessionErrorPolicy && h.sessionOver && len(f.Servers) > 0 && r.mayReach(h.client, f.Servers, f.Start, f.End):
		// A follower confirms a session before it tells its leader, and its client may not reach another server in time.
		return true
	default:
		// One that was stopped and then releases in good order has had its lock all the time. One that
		// asked after it went on was not stopped in the call, and knows the time.
		return slices.Contains(f.Clients, h.client) && h.called <= f.End && (h.released == 0 || h.lost != 0 || h.failed != "")
	}
}

// deletedByOwner reports whether, by the log, the node of a hold was deleted by the session that had created it.
// Then no other session has succeeded, even if it tried.
func (r *roundReport) deletedByOwner(h *hold) bool {
	if r.log == nil {
		return false
	}
	n := r.logAt(h.acquired).nodes[h.node]
	return n != nil && n.deleted != 0 && n.by == n.session
}
