// SPDX-License-Identifier: Apache-2.0

package main

var partitionRows = []row{
	{
		name: "plan-of-an-old-state", breaks: partitionHeld,
		in:     "recipes/x/partition.(*state).write",
		change: become("framework.WithVersion(framework.AnyVersion)", "WithVersion()"),
		test:   "^TestAssignOneOfTwoPlansIsAccepted$",
	},
	{
		name: "loads-of-the-heaviest-stay", breaks: loadsDivided,
		in:     "recipes/x/partition/internal/shares.(*balance).move",
		change: never("high"),
		test:   "^TestAssignHeavyPartitions$",
	},
	{
		name: "standby-comes-last", breaks: standbyFirst,
		in:     "recipes/x/partition.(*state).terms",
		change: become("nil", "warm()"),
		test:   "^TestStandbyTakesOverFirst$",
	},
	{
		name: "names-of-another-set-dropped", breaks: partitionHeld,
		in:     "recipes/x/partition.(*planner).planOnce",
		change: drop("together()"),
		test:   "^TestSetsOfARollingDeployment$", flags: []string{"-short"},
	},
	{
		name: "partition-robbed", breaks: partitionHeld,
		in: "recipes/x/partition.(*piece).awaitReturn",
		change: begin("select { case <-$3: case <-time.After($r.of.cfg.grace): $r.tell(Overdue, $2, context.Cause($1)) }; " +
			"return"),
		test: "^TestMemberHolderThatHangs$",
	},
	{
		name: "death-of-a-member-unnoticed", breaks: partitionHeld,
		in:     "recipes/x/partition.(*run).heed",
		change: always("previous", "isMember()"),
		test:   "^TestMemberDies$",
	},
	{
		name: "partitions-move-for-a-rounding", breaks: oneShareMoves,
		in:     "recipes/x/partition/internal/shares.quotas",
		change: negate("count()"),
		test:   "^TestAssignJoinMovesOneShare$",
	},
}

var slotsRows = []row{{
	name: "number-of-two-processes", breaks: numbersApart,
	in:     "recipes/x/slots.(*Slots).lock",
	change: become("2", "1"),
	test:   "^TestSlotsOfAFleet$", flags: []string{"-short"},
}}

var scheduleRows = []row{
	{
		name: "state-of-another-runner-overwritten", breaks: ticksOnce,
		in:     "recipes/x/schedule.(*runner).write",
		change: become("framework.WithVersion(framework.AnyVersion)", "WithVersion()"),
		test:   "^TestStateOfAnotherRunnerIsNotOverwritten$",
	},
	{
		name: "lost-reply-of-a-state-not-resolved", breaks: ticksOnce,
		in:     "recipes/x/schedule.(*runner).write",
		change: negate("is()"),
		test:   "^TestLostReplyOfTheStateIsResolvedByReading$",
	},
	{
		name: "clock-ahead-runs-the-future", breaks: ticksOnce,
		in:     "recipes/x/schedule.(*clock).now",
		change: never("After()"),
		test:   "^TestClockThatDiffers$",
	},
}

var cacheRows = []row{
	{
		name: "what-a-cache-does-not-keep-is-read", breaks: cacheReads,
		in:     "recipes/cache.(*engine).changed",
		change: always("keeps()"),
		test:   "^TestLimitsChangesThatAreNotKeptCostNoRequest$",
	},
	{
		name: "children-kept-whatever-the-selector-says", breaks: cacheConverges,
		in:     "recipes/cache.(*engine).explore",
		change: always("keepsChild()"),
		test:   "^TestConvergence$",
	},
	{
		name: "gap-not-compared", breaks: cacheConverges,
		in:     "recipes/cache.(*engine).drain",
		change: drop("paused=", "beginSweep()"),
		test:   "^TestCuratorCacheEdges_testReconnectConsistency$",
	},
	{
		name: "compared-by-creation-only", breaks: cacheConverges,
		in:     "recipes/cache.(*picture).shows",
		change: always("Mzxid"),
		test:   "^TestConvergence$",
	},
	{
		name: "told-twice", breaks: cacheConverges,
		in:     "recipes/cache.(*engine).put",
		change: never("shows()"),
		test:   "^TestConvergence$",
	},
	{
		name: "event-during-a-read-lost", breaks: cacheConverges,
		in:     "recipes/cache.(*engine).finish",
		change: never("queued"),
		test:   "^TestEngineEventWhileAPathIsRead$",
	},
	{
		name: "fresh-without-a-sync", breaks: neverOlder,
		in:     "recipes/cache.(*CuratorCache).Fresh",
		change: become("$1.Err()", "Sync()"),
		test:   "^TestFreshAtAServerThatLags$",
	},
	{
		name: "watch-of-a-cache-left", breaks: nothingLeft,
		in:     "recipes/cache.(*engine).unwatch",
		change: drop("Cancel()"),
		test:   "^TestCacheOfATree$",
	},
}

var queuesRows = []row{
	{
		name: "result-beside-its-item", breaks: atMostOnce,
		in:     "recipes/queues.(*delivery).transact",
		change: begin("if _, err := $r.c.q.client.Transact($1, $3...); err != nil { return err }"),
		test:   "^TestItemEveryLostRequestOfATransact$",
	},
	{
		name: "item-finished-while-in-doubt", breaks: atMostOnce,
		in:     "recipes/queues.(*delivery).finishLocked",
		change: never("pending"),
		test:   "^TestItemTransactInDoubtIsSettledByTheLoop$",
	},
	{
		name: "transaction-without-its-witness", breaks: atMostOnce,
		in:     "recipes/queues.(*locker).do",
		change: become("framework.WithVersion(framework.AnyVersion)", "WithVersion()"),
		test:   "^TestFaultsEveryLostRequestOfALockedConsumer$/^transaction_1,_LoseReply$",
	},
	{
		name: "late-deletion-of-another-item", breaks: atMostOnce,
		in:     "recipes/queues.ensure",
		change: become("$0, framework.WithMode(framework.Container)", "CreatingParentContainersIfNeeded()"),
		test:   "^TestSimpleQueueLateDeletionDeletesNoOtherItem$",
	},
	{
		name: "lock-of-an-item-left", breaks: nothingLeft,
		in:     "recipes/queues.(*locker).settle",
		change: become("$0, $r.session.Err() != nil", "Is()", "errOver"),
		test:   "^TestFaultsConsumerWhoseServersRestartLeavesNoLock$",
	},
}

// valuesRows are the mutants of counters, shared values, transactions, barriers and nodes.
var valuesRows = []row{
	{
		name: "value-set-without-its-version", breaks: atMostOnce,
		in:     "recipes/internal/attempt.Replace",
		change: become("framework.WithVersion(framework.AnyVersion)", "WithVersion()"),
		pkg:    "recipes/atomic", test: "^TestUpdateSeesEachChangeOfOthers$", flags: []string{"-short"},
	},
	{
		name: "number-given-twice", breaks: atMostOnce,
		in:     "recipes/atomic.(*DistributedAtomicNumber).write",
		change: drop("Pre=", "Post="),
		test:   "^TestNumberAdditionsOfManyClients$", flags: []string{"-short"},
	},
	{
		name: "shared-value-goes-back", breaks: neverOlder,
		in:     "recipes/shared.(*SharedValue).learn",
		change: always("Zxid"),
		test:   "^TestSharedOlderValueNeverReplacesANewerOne$",
	},
	{
		name: "transaction-on-what-has-changed", breaks: atMostOnce,
		in:     "recipes/x/txn.(*Tx).checks",
		change: negate("used"),
		test:   "^TestTxnConflictsAtTheCommit$",
	},
	{
		name: "transaction-beside-a-new-znode", breaks: atMostOnce,
		in:     "recipes/x/txn.(*Tx).probes",
		change: drop("identified()"),
		test:   "^TestTxnConflictsAtTheCommit$",
	},
	{
		name: "late-close-of-the-next-round", breaks: atMostOnce,
		in:     "recipes/barriers.(*DistributedDoubleBarrier).close",
		change: become("framework.WithVersion(framework.AnyVersion)", "WithVersion()"),
		test:   "^(TestDoubleBarrierLateCloseOfADeadRoundSparesTheNext|TestDoubleBarrierLateCloseOfALeaverSparesTheNextRound)$",
	},
}
