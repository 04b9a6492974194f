// SPDX-License-Identifier: Apache-2.0

package main

// locksRows are the mutants of leases, holds, semaphores and read/write locks, and of
// package fence, which refuses their tokens.
var locksRows = []row{
	{
		name: "loss-by-the-clock-taken-back", breaks: oneHolder,
		in:     "recipes/locks.(*hold).err",
		change: begin("if !time.Now().Before($r.session.HoldDeadline($r.l.cfg.policy)) { return errOwnNodeGone }"),
		test:   "^TestLeaseLossByTheClockIsForGood$",
	},
	{
		name: "node-of-the-same-name-keeps-a-hold", breaks: oneHolder,
		in:     "recipes/locks/internal/heldnode.(*Node).examine",
		change: never("Czxid"),
		pkg:    "recipes/locks",
		test:   "^TestExclusiveLockNodeOfTheSameNameIsNotTheHolders$/^zkserver$", flags: []string{"-timeout=15s"},
	},
	{
		name: "released-with-the-first-lease", breaks: oneHolder,
		in:     "recipes/locks.(*hold).leave",
		change: always("leases", "0"),
		test:   "^TestLeaseSaysWhatItsHoldIs$",
	},
	{
		name: "released-before-the-function-returns", breaks: oneHolder,
		in: "recipes/locks.do",
		change: begin("inner := $3; $3 = func(ctx context.Context) (L, error) { lease, err := inner(ctx); " +
			"if err == nil { context.AfterFunc(ctx, func() { _ = lease.Release(context.Background()) }) }; return lease, err }"),
		test: "^TestDoGivesBackAfterTheFunction$/^zkserver$",
	},
	{
		name: "one-more-than-the-maximum", breaks: oneHolder,
		in:     "recipes/locks.leaseDriver.GetsTheLock",
		change: boundary("GetsTheLock"),
		test:   "^TestSemaphorePermitIsAPermit$/v2/zkserver",
	},
	{
		name: "permit-lost-with-its-turn", breaks: lossFirst,
		in:     "recipes/locks.permits.takeTurn",
		change: drop("joined()", "errTurnLost"),
		test:   "^TestSemaphoreLeaseIsLostWithTheReplyToItsTurn$/^zkserver$",
	},
	{
		name: "reader-beside-a-writer", breaks: oneHolder,
		in:     "recipes/locks.readDriver.GetsTheLock",
		change: drop("PathsToWatch"),
		test:   "^TestReadWriteLockQueue$",
	},
	{
		name: "downgrade-without-its-node", breaks: oneHolder,
		in:     "recipes/locks.downgradeDriver.GetsTheLock",
		change: drop("notListed()", "return"),
		test:   "^TestDowngradedReaderMustBeListed$",
	},
	{
		name: "downgraded-token-above-the-next-writer", breaks: tokensRise,
		in:     "recipes/locks.downgradeDriver.CreatesTheLock",
		change: become("Token: 0", "Token"),
		test:   "^TestDowngrade$",
	},
	{
		name: "sequence-as-token", breaks: tokensRise,
		in:     "recipes/locks.(*Lease).Token",
		change: begin("n, _ := StandardLockInternalsSorter{mutexName}.Sequence($r.Path()); return int64(n) + 1"),
		test:   "^TestOwnershipTokenRisesWhenTheFolderIsMadeAnew$",
	},
	{
		name: "queue-ordered-by-text", breaks: inOrder,
		in:     "recipes/locks.StandardLockInternalsSorter.Compare",
		change: begin("return strings.Compare($1, $2)"),
		test:   "^TestOwnershipQueueKeepsItsOrderAcrossTheWrap$",
	},
	{
		name: "number-of-several-nodes-admitted", breaks: inOrder,
		in:     "recipes/locks.StandardLockInternalsDriver.GetsTheLock",
		change: never("MaxInt32"),
		test:   "^TestOwnershipNobodyIsAdmittedWhenTheSequenceIsExhausted$",
	},
	{
		name: "row-of-holds-without-end", breaks: inOrder,
		in:     "recipes/locks.(*gate).handOver",
		change: boundary("row"),
		test:   "^TestHandoffRowOfHolds$",
	},
	{
		name: "lost-node-kept", breaks: nothingLeft,
		in:     "recipes/locks.(*hold).abandon",
		change: drop("Delete()"),
		test:   "^TestEveryFaultAtEveryRequest$/^InterProcessMutex:",
	},
	{
		name: "release-on-an-ended-context", breaks: nothingLeft,
		in:     "recipes/locks.(*Lease).Release",
		change: drop("WithoutCancel()"),
		test:   "^TestMutexReleaseWithAnEndedContext$",
	},
	{
		name: "older-token-accepted", breaks: tokensRise,
		in:     "recipes/fence.(*Register).accept",
		change: never("newest"),
		test:   "^TestAccept$",
	},
	{
		name: "older-work-goes-on", breaks: tokensRise,
		in:     "recipes/fence.(*Register).enter",
		change: always("inside"),
		test:   "^TestRegisterNewerTokenWaitsForOlderWork$",
	},
}
