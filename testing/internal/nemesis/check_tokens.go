// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"strconv"
)

// tokens finds holds whose token is not above the tokens before it. A reader's token is above all earlier
// writers' tokens; readers' tokens have no order among themselves. A semaphore's tokens say nothing.
func tokens(r *roundReport) (found []violation) {
	for lock, all := range r.locks {
		var newest, newestRead *hold // so far, by token
		for _, h := range all {
			if h.spec.Permits > 0 || !h.sure() {
				continue
			}
			if h.token <= 0 {
				found = append(found, violation{promise: risingTokens, round: r, at: h.acquired, holds: []*hold{h}, what: lock + ": no token"})
				continue
			}
			for _, before := range []*hold{newest, newestRead} {
				if before == nil || before == newestRead && h.shared || rises(before, h) {
					continue
				}
				found = append(found, violation{
					promise: risingTokens, round: r, at: h.acquired, holds: []*hold{before, h},
					what: fmt.Sprintf("%s: token %#x after %#x", lock, h.token, before.token),
				})
				break
			}
			if h.shared {
				newestRead = newer(newestRead, h)
			} else {
				newest = newer(newest, h)
			}
		}
	}
	return found
}

// newer is the hold with the greater token. If both have the same it is the later one.
func newer(a, b *hold) *hold {
	if a == nil || b.token >= a.token {
		return b
	}
	return a
}

// rises reports whether the later hold may have its token: a greater one, or the same because
// its owner has re-entered or downgraded, or because a row of holds has one node.
func rises(earlier, later *hold) bool {
	return later.token > earlier.token ||
		later.token == earlier.token && (earlier.owner == later.owner || earlier.node == later.node)
}

// fifo finds exclusive holds that were granted before holds that were ahead of them in the queue.
// The numbers of the nodes give the order in the queue. They begin again when the folder has been
// deleted and created again; the nodes of a later folder have greater tokens.
func fifo(r *roundReport) (found []violation) {
	for lock, all := range r.locks {
		var last *hold // in the queue, of those that were granted
		for _, h := range all {
			number, queued := sequence(h.node)
			if h.spec.Permits > 0 || h.shared || !queued || !h.sure() {
				continue
			}
			if last == nil || h.token > last.token {
				last = h
				continue
			}
			if lastNumber, _ := sequence(last.node); number < lastNumber && path.Dir(h.node) == path.Dir(last.node) {
				found = append(found, violation{
					promise: firstComeFirst, round: r, at: h.acquired, holds: []*hold{last, h},
					what: fmt.Sprintf("%s: number %d of the queue was granted after number %d", lock, number, lastNumber),
				})
			}
		}
	}
	return found
}

// sequence is the number that ZooKeeper has appended to a node's name.
func sequence(node string) (int32, bool) {
	const digits = 10
	if len(node) < digits {
		return 0, false
	}
	n, err := strconv.ParseInt(node[len(node)-digits:], 10, 32)
	return int32(n), err == nil
}
