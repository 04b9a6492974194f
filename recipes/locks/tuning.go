// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"math"
	"time"
)

// What these constants cost and save is measured by the benchmark: scenarios of testing/internal/bench are named here.
const (
	// placesAlone is how many acquisitions of a client have a node while no other client is in the queue: the holder,
	// and those whose creations are under way meanwhile (one-process).
	placesAlone = 4

	// placesBesideOthers is as many when others are in the queue. Each is one more name in all lists (queue, long-queue).
	placesBesideOthers = 2

	// noLimit is a number of places.
	noLimit = math.MaxInt

	// neighboursAfterMiss is the number of neighbours after a miss until a node is created without a list again (contended).
	neighboursAfterMiss = 2

	// remembered is how many nodes that have left a gate knows, as a list may show them yet.
	remembered = 64

	// chainDelay is how long neighbours follow each other without a list.
	chainDelay = time.Second

	// proofAge is how long the next in the queue relies on its own node, from the request on whose reply has shown it
	// (one-process, herd).
	proofAge = 100 * time.Millisecond

	// earlyLead is how long a waiter lists before the contender before it will probably be the first, in hundredths of a turn
	// (contended, election). A list that comes too late is of no use. One that comes too early is made again
	// if the queue has moved since the list before.
	earlyLead = 130

	// earlyMost is the most contenders before a waiter that does so (herd).
	earlyMost = 64

	// lookDelay is the pause before an acquisition looks again after an error, and the least age of a node that is deleted by
	// hand before another one takes its place. So it does not spin with what makes it fail.
	lookDelay = 20 * time.Millisecond

	// holdDelay is how long a hold lasts before its node is watched (uncontended). A shorter hold saves this request; the
	// release finds out whether the node was still there.
	holdDelay = time.Millisecond

	// maxRejoinPause bounds the pause after an attempt that could not queue, as at a server without a
	// quorum. It is how much later than the others a waiter may queue again.
	maxRejoinPause = time.Second
)
