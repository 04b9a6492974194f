// SPDX-License-Identifier: Apache-2.0

package partition

import "time"

// reason is why a run does something at a time.
type reason int

const (
	planNow    reason = iota // partitions may have no holder
	meet                     // members have come: see who plans, before the group has settled
	balance                  // the group may have settled
	recheck                  // partitions that have moved, and that no other member has asked for, may be removed
	weighLoads               // the head looks at the loads
	giveUp                   // a member that is away is awaited no longer
	clearName                // another znode has the name of this member
	reasons
)

// agenda says when a run does what. The earliest entry sets its timer.
type agenda struct {
	times [reasons]time.Time // zero if there is no need
	held  time.Time          // nothing is done before this, after a failure
}

func (a *agenda) at(why reason, t time.Time)        { a.times[why] = t }
func (a *agenda) after(why reason, d time.Duration) { a.at(why, time.Now().Add(d)) }
func (a *agenda) now(why reason)                    { a.after(why, 0) }
func (a *agenda) has(why reason) bool               { return !a.times[why].IsZero() }
func (a *agenda) isDue(why reason) bool             { return a.has(why) && !time.Now().Before(a.times[why]) }
func (a *agenda) isHeld() bool                      { return time.Now().Before(a.held) }

func (a *agenda) drop(whys ...reason) {
	for _, why := range whys {
		a.times[why] = time.Time{}
	}
}

// rest returns for how long there is nothing to do.
func (a *agenda) rest() time.Duration {
	var first time.Time
	for _, t := range a.times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	switch {
	case first.IsZero():
		return time.Hour
	case a.held.After(first):
		first = a.held
	}
	return time.Until(first)
}
