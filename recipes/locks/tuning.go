// SPDX-License-Identifier: Apache-2.0

package locks

import "time"

// What these constants cost and save is measured by the benchmark: scenarios of testing/internal/bench are named here.
// Package line has two of its own.
const (
	// crowd is the number of acquisitions of this client in one queue from which on a newcomer does not
	// list the folder with its create: it will wait for one of them in any case (queue).
	crowd = 16

	// ownDelay is how long an acquisition relies on its own node, which a server has shown, before it
	// watches the node (contended). A shorter wait saves this request; the release finds out whether the
	// node was still there.
	ownDelay = 20 * time.Millisecond

	// farDelay takes the place of ownDelay while the contender before ours waits, too (contended, on
	// servers that force to disk).
	farDelay = time.Second

	// holdDelay is how long a hold lasts before its node is watched (uncontended), for the same reason.
	holdDelay = time.Millisecond

	// namesPerNotification is how many names in a list cost as much as one notification (long-queue). For
	// the processor of a server it is far more, for the network one or two.
	namesPerNotification = 16

	// maxAwaited bounds the contenders that one waiter watches (long-queue). Each departure wakes all
	// waiters that watch it.
	maxAwaited = 64

	// watchBytes bounds the paths in one request for watches, far below what a server accepts.
	watchBytes = 256 << 10

	// proofAge bounds the age of the newest acknowledged request when a lock is handed on in memory
	// (one-process). On a silent link another client may hold the lock by now.
	proofAge = 100 * time.Millisecond

	// tryMemory is how long a failed try makes the next one look before it creates a node.
	tryMemory = 10 * time.Second

	// maxRejoinPause bounds the pause after an attempt that could not queue, as at a server without a
	// quorum. It is how much later than the others a waiter may queue again.
	maxRejoinPause = time.Second
)
