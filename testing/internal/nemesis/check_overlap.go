// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"
)

// sure reports whether the holder had the lock for certain at the moment that its call
// returned. It may not have had it if its process was stopped in the call, for example.
func (h *hold) sure() bool { return h.validUntil() >= h.acquired }

// overlaps finds holds that exclude each other and were both valid at one moment: that
// in which the call for the later one returned.
//
// It goes through the holds in the order of acquisition and keeps those that are still
// valid, which are as many as workers at most. So it takes O(n log n), for the order.
func overlaps(r *roundReport) (found []violation) {
	for lock, all := range r.locks {
		if all[0].spec.Permits > 0 {
			continue
		}
		var valid []*hold
		for _, h := range all {
			if !h.sure() {
				continue
			}
			valid = stillValid(valid, h.acquired)
			for _, earlier := range valid {
				if !together(earlier, h) {
					found = append(found, violation{
						promise: noOverlap, round: r, at: h.acquired, holds: []*hold{earlier, h},
						what: fmt.Sprintf("%s is held twice for %v", lock, time.Duration(min(earlier.validUntil(), h.validUntil())-h.acquired)),
					})
				}
			}
			valid = append(valid, h)
		}
	}
	return found
}

// permits finds holds of a semaphore that are more than it has permits. There is one
// violation for each that came when all were held.
func permits(r *roundReport) (found []violation) {
	for lock, all := range r.locks {
		limit := all[0].spec.Permits
		if limit == 0 {
			continue
		}
		var valid []*hold
		for _, h := range all {
			if !h.sure() {
				continue
			}
			valid = append(stillValid(valid, h.acquired), h)
			if len(valid) > limit {
				found = append(found, violation{
					promise: withinPermits, round: r, at: h.acquired, holds: append([]*hold(nil), valid...),
					what: fmt.Sprintf("%s has %d holders, expected at most %d", lock, len(valid), limit),
				})
			}
		}
	}
	return found
}

// stillValid keeps the holds that are valid for certain after a moment.
func stillValid(valid []*hold, at int64) []*hold {
	kept := valid[:0]
	for _, h := range valid {
		if h.validUntil() > at {
			kept = append(kept, h)
		}
	}
	return kept
}

// together reports whether two holds may be valid at the same time: the holds of readers, and holds
// of one owner that has re-entered or downgraded under its token.
func together(a, b *hold) bool {
	return a.shared && b.shared || a.owner == b.owner && a.token == b.token
}
