// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// The invariants of ARCHITECTURE.md, in its words. Each has at least one mutant.
const (
	oneHolder      invariant = "While a lease is valid, no other client holds the lock"
	lossFirst      invariant = "The holder learns of a loss before the next holder enters"
	deadline       invariant = "The deadline of a session is never later than its end at the server"
	quorumOnly     invariant = "Under `QuorumErrorPolicy` the deadline counts only committed writes"
	tokensRise     invariant = "Tokens rise from hold to hold"
	inOrder        invariant = "Contenders are served in the order of creation"
	nothingLeft    invariant = "No call leaves nodes, watches or goroutines behind"
	ownSession     invariant = "A request runs only in the session in which it was sent, and a bound one only in its history"
	atMostOnce     invariant = "A write is applied at most once, or its error says that the outcome is unknown"
	neverOlder     invariant = "A client never reads older data than it has seen"
	oneHistory     invariant = "Numbers of the servers (zxid, version, token) are compared within one history only"
	partitionHeld  invariant = "A partition has one holder, and each has one while a member lives"
	oneShareMoves  invariant = "A join or a leave moves one share of the partitions"
	loadsDivided   invariant = "With loads, no member is beyond a tenth of its part, and less changes move nothing"
	standbyFirst   invariant = "Of a partition whose owner goes, a prepared standby is the next owner, in another zone if there is one"
	numbersApart   invariant = "A number of slots has one process"
	ticksOnce      invariant = "Each tick of a job succeeds at most once, in order, and none is lost"
	pingsFirst     invariant = "No bulk traffic delays a ping"
	userCodeApart  invariant = "No user function runs under a lock of the client or on the receiving goroutine"
	secretsKept    invariant = "Secrets appear in no log, error, metric or trace"
	saslFirst      invariant = "No request of ours leaves before the exchange of SASL is complete"
	boundedMemory  invariant = "Memory that a server can make a client use is bounded"
	cacheConverges invariant = "A cache converges after any faults, and reports nothing twice"
	oneProcess     invariant = "A session belongs to one process, from its beginning to its end. Another process may end it, and may do nothing else with it"
	cacheReads     invariant = "A cache reads nothing that it does not keep"
)

// table lists the mutants of all packages.
var table = slices.Concat(
	conduitRows,
	frameworkRows,
	gateRows,
	locksRows,
	leaderRows,
	partitionRows,
	scheduleRows,
	slotsRows,
	cacheRows,
	queuesRows,
	valuesRows,
)
