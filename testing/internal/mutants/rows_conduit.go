// SPDX-License-Identifier: Apache-2.0

package main

var conduitRows = []row{
	{
		name: "request-in-the-next-session", breaks: ownSession,
		in:     "framework/internal/conduit.(*conn).enqueueLocked",
		change: never("Session", "session"),
		test:   "^TestCallBoundToAnotherSessionIsRefused$",
	},
	{
		name: "request-after-the-end-of-the-session", breaks: ownSession,
		in:     "framework/internal/conduit.(*conn).enqueueLocked",
		change: never("closing"),
		test:   "^TestCloseNothingFollowsTheEndOfTheSession$",
	},
	{
		name: "registration-after-the-first-call", breaks: oneProcess,
		in:     "framework/internal/conduit.(*conn).admit",
		change: never("registered", "Load()"),
		pkg:    "framework", test: "^TestGuardHasTheSessionFirst$",
	},
	{
		name: "late-reply-revives-a-lease", breaks: deadline,
		in:     "framework/internal/conduit.(*leaseClock).renew",
		change: never("isOver()"),
		test:   "^TestLeaseClock$",
	},
	{
		name: "request-from-before-the-deadline-revives-a-lease", breaks: deadline,
		in:     "framework/internal/conduit.(*leaseClock).renew",
		change: never("Before()", "deadline"),
		test:   "^TestLeaseNeverOutlivesTheServersView$",
	},
	{
		name: "answer-to-a-credential-renews-a-lease", breaks: deadline,
		in:     "framework/internal/conduit.(*conn).receiveAuthReply",
		change: begin("$r.owner.lease.renew($r.connectSent.Add(2*$r.owner.cfg.SessionTimeout), $r.connectSent)"),
		test:   "^TestAuthAnswersToCredentialsProveNothing$",
	},
	{
		name: "notification-proves-life", breaks: deadline,
		in:     "framework/internal/conduit.provesLife",
		change: always("XidNotification"),
		pkg:    "framework", test: "^TestSessionServerThatOnlyTalks$",
	},
	{
		name: "ping-confirms-the-quorum", breaks: quorumOnly,
		in:     "framework/internal/conduit.(*leaseClock).renew",
		change: begin("defer func() { $r.quorum = $r.deadline }()"),
		pkg:    "framework", test: "^TestQuorumOnlyWritesKeepAQuorumHold$",
	},
	{
		name: "write-confirms-itself", breaks: quorumOnly,
		in:     "framework/internal/conduit.(*leaseClock).confirm",
		change: never("atLeader", "acked"),
		test:   "^TestQuorumsDeadline$",
	},
	{
		name: "suspension-unnoticed", breaks: lossFirst,
		in:     "framework/internal/conduit.(*Conduit).Start",
		change: drop("watch()"),
		pkg:    "framework", test: "^TestSuspendedHoldDoesNotOutliveASuspension$",
	},
	{
		name: "event-forgotten-over-a-reconnect", breaks: neverOlder,
		in:     "framework/internal/conduit.(*seen).event",
		change: drop("unproved"),
		test:   "^TestBulkEventIsNotForgottenOverAReconnect$", flags: []string{"-timeout=20s"},
	},
	{
		name: "new-history-unnoticed", breaks: oneHistory,
		in:     "framework.(*Framework).History",
		change: become("min($0, 1)", "History()"),
		pkg:    "recipes", test: "^TestHistoriesViewShowsWhatServersHaveThatBeganAgain$/^(Follow|shared_value|simple_queue)$",
	},
	{
		name: "write-in-another-history-than-its-read", breaks: oneHistory,
		in:     "framework.(*requests).bind",
		change: become("0", "historyOf()"),
		pkg:    "recipes", test: "^TestHistoriesChangeIsMadeOfWhatTheServersHave$",
	},
	{
		name: "ping-behind-the-queue", breaks: pingsFirst,
		in: "framework/internal/conduit.(*conn).Write",
		change: begin("for queued := 1; queued > 0; time.Sleep(time.Millisecond) " +
			"{ $r.queue.Lock(); queued = $r.unsent.len(); $r.queue.Unlock() }"),
		test: "^TestBulkPingsGoOutBeforeQueuedBulk$",
	},
	{
		name: "bulk-without-a-window", breaks: pingsFirst,
		in:     "framework/internal/conduit.(*conn).takeBatchLocked",
		change: never("dropped"),
		pkg:    "framework", test: "^TestBulkDoesNotCostTheSession$",
	},
	{
		name: "request-before-sasl", breaks: saslFirst,
		in:     "framework/internal/conduit.(*conn).establish",
		change: drop("return"),
		test:   "^TestSASLExchangeComesFirst$",
	},
	{
		name: "frame-without-a-limit", breaks: boundedMemory,
		in:     "framework/internal/conduit.(*conn).readLength",
		change: drop("uint32()"),
		pkg:    "framework", test: "^TestBadServers$/^7_",
	},
}
