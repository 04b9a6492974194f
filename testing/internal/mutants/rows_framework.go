// SPDX-License-Identifier: Apache-2.0

package main

var frameworkRows = []row{
	{
		name: "loss-by-the-expired-event-only", breaks: lossFirst,
		in:     "framework.(*tracker).checkTimer",
		change: drop("endSession()"),
		pkg:    "recipes/locks", test: "^TestLeaseHolderKnowsFirstOnFakeTime$/^silence,_session$",
	},
	{
		name: "suspension-ends-no-hold", breaks: lossFirst,
		in:     "framework.(*Session).suspend",
		change: drop("end()"),
		pkg:    "recipes/locks", test: "^TestLeaseAcquireAgainAfterALoss$/^zkserver$",
	},
	{
		name: "node-of-an-earlier-session-is-ours", breaks: oneHolder,
		in:     "framework.(*creation).find",
		change: never("EphemeralOwner"),
		test:   "^TestLostReplyNodeOfAnEarlierSessionIsNotOurs$",
	},
	{
		name: "search-without-a-sync", breaks: oneHolder,
		in:     "framework.(*Framework).protectedNames",
		change: become("$0[1:]", "append()"),
		pkg:    "recipes/locks", test: "^TestCreateOneNodeAlthoughTheNextServerIsBehind$",
	},
	{
		name: "path-that-was-not-asked-for-is-ours", breaks: oneHolder,
		in:     "framework.(*creation).requests",
		change: drop("Reject()"),
		pkg:    "recipes/locks", test: "^TestLockAtABadServer$/^10_",
	},
	{
		name: "sequence-without-a-wrap", breaks: inOrder,
		in:     "framework.CompareSequence",
		change: begin("return int($1) - int($2)"),
		test:   "^TestSequenceNumbersInOrder$",
	},
	{
		name: "call-of-session-failed-goes-on", breaks: ownSession,
		in:     "framework.(*requests).repeat",
		change: become("false", "bound()", "nil"),
		test:   "^TestSessionFailedKeepsACallInItsSession$",
	},
	{
		name: "retry-past-the-session", breaks: ownSession,
		in:     "retry.sessionFailed.Next",
		change: never("ErrSessionExpired"),
		test:   "^TestSessionFailedGivesUpOnExpiry$",
	},
	{
		name: "doubt-forgotten-at-a-refusal", breaks: atMostOnce,
		in:     "framework.(*requests).run",
		change: never("inDoubt"),
		test:   "^TestIdempotentDoubtOutlivesALaterRefusal$",
	},
	{
		name: "delete-repeated-in-doubt", breaks: atMostOnce,
		in:     "framework.(*deletion).run",
		change: always("idempotent"),
		test:   "^TestDeleteQuietDeleteIsNotRepeatedInDoubt$",
	},
	{
		name: "cause-of-a-context-is-an-answer", breaks: atMostOnce,
		in:     "framework.interrupted",
		change: begin("return context.Cause($1)"),
		test:   "^TestInterruptedCauseIsNoAnswer$", flags: []string{"-timeout=30s"}, // a create that sets spins
	},
	{
		name: "heartbeat-left", breaks: nothingLeft,
		in:     "framework.(*heartbeatRun).run",
		change: drop("deleteHeartbeat()"),
		test:   "^TestHeartbeatsAreWrittenWhileSomethingIsHeld$",
	},
	{
		name: "persistent-watch-left", breaks: nothingLeft,
		in:     "framework/internal/watching.(*Registry).settleLocked",
		change: drop("removeAtServerLocked()"),
		pkg:    "framework", test: "^TestPersistentWatchesAreShared$/^zkserver$",
	},
	{
		name: "end-of-a-connection-is-that-of-the-process", breaks: oneProcess,
		in:     "cmd/curatorctl.(*ward).awaitEnd",
		change: begin("return true"),
		test:   "^TestGuardSparesTheLiving$/^descriptors_closed$",
	},
	{
		name: "command-outlives-the-session", breaks: oneProcess,
		in:     "cmd/curatorctl.(*underLock).supervise",
		change: drop("Beside()"),
		test:   "^TestGuardWaitsForTheCommand$",
	},
	{
		name: "any-user-registers", breaks: oneProcess,
		in:     "cmd/curatorctl.(*ward).meet",
		change: never("Geteuid()"),
		test:   "^TestGuardIsForItsUser$",
	},
	{
		name: "create-in-doubt-left", breaks: nothingLeft,
		in:     "framework.(*creation).settle",
		change: become("false", "Add()"),
		pkg:    "recipes/leader", test: "^TestLatchNothingIsLeftOfALatchClosedDuringItsCreation$/^zkserver$", flags: []string{"-short", "-timeout=60s"},
	},
	{
		name: "failed-acquisition-left", breaks: nothingLeft,
		in:     "recipes/internal/attempt.Remove",
		change: become("framework.Quietly()", "Guaranteed()"),
		pkg:    "recipes/locks", test: "^TestAcquireThatTimesOutKeepsNoClientOut$",
	},
	{
		name: "logger-on-the-receiving-goroutine", breaks: userCodeApart,
		in:     "framework.(*config).queueLogs",
		change: drop("Logger="),
		test:   "^TestLoggerThatBlocksCostsLogLinesOnly$", flags: []string{"-timeout=30s"}, // waiting for the handler stops the clock
	},
	{
		name: "password-in-messages", breaks: secretsKept,
		in:     "framework.(*Session).Format",
		change: become("$0+string($r.password)", "String()"),
		test:   "^TestBadInputSecretsAreToldToNobody$",
	},
	{
		name: "credential-in-errors", breaks: secretsKept,
		in:     "framework.WithAuth",
		change: become(`option("WithAuth", valid, func(c *config) { c.Auth = append(c.Auth, auth) }, refusal+"%s", $2)`, "option()"),
		test:   "^TestBadInputSecretsAreToldToNobody$",
	},
	{
		name: "gap-in-the-events-untold", breaks: cacheConverges,
		in:     "framework/internal/watching.(*Registry).rearmedOneLocked",
		change: drop("notify()"),
		pkg:    "framework", test: "^TestAddWatchSurvivesFaults$/^reply_lost$/^zkserver$",
	},
}
