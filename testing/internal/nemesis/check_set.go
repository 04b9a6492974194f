// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// sets finds updates that were lost, or applied twice or against the answer, in the sets that
// holders append to under the guard of their leases.
func sets(r *roundReport) (found []violation) {
	there := make(map[string]map[string]int)
	for lock, values := range r.record.Sets {
		there[lock] = make(map[string]int)
		for _, value := range values {
			if there[lock][value]++; there[lock][value] == 2 {
				found = append(found, lostUpdate(r, event{Lock: lock, Value: value}, "is there more than once"))
			}
		}
	}
	for _, events := range r.events {
		for _, e := range events {
			if e.Kind != appended {
				continue
			}
			n := there[e.Lock][e.Value]
			switch e.Outcome {
			case accepted:
				written := func(log *transactionLog) bool { _, there := log.sets.appended[e.Value]; return there }
				if n == 0 && !r.tookBack(e.At, written) {
					found = append(found, lostUpdate(r, e, "was accepted and is not there"))
				}
			case refused:
				if n > 0 {
					found = append(found, lostUpdate(r, e, "was refused and is there"))
				}
			case unknown: // may be there or not
			}
		}
	}
	return found
}

func lostUpdate(r *roundReport, e event, what string) violation {
	return violation{promise: noLostUpdate, round: r, at: e.At, what: fmt.Sprintf("set of %s: value %q %s", e.Lock, e.Value, what)}
}
