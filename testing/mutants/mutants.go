package main

// table is the list of mutants. Names are in kebab case and start with the
// package they break. A property is one sentence about the unbroken code.
var table = []mutant{
	{
		name:     "retry-past-expiry",
		property: "SessionFailed never retries in another session than the one the work began in.",
		file:     "retry/policy.go",
		old:      "if errors.Is(err, zk.ErrSessionExpired) {",
		new:      "if errors.Is(err, zk.ErrClosing) {",
		pkg:      "./retry",
		test:     "^TestSessionFailedGivesUpOnExpiry$",
	},
	{
		name:     "retry-after-the-context",
		property: "Do does not call the operation again once its context has ended.",
		file:     "retry/do.go",
		old:      "if l.last != nil && l.ctx.Err() != nil {",
		new:      "if false {",
		pkg:      "./retry",
		test:     "^TestDoPrefersTheContextToTheNextTry$",
	},
	{
		name:     "retry-hides-the-cause",
		property: "The error of a Do that its context ended matches the cause of that context.",
		file:     "retry/do.go",
		old:      "return interrupted(context.Cause(l.ctx), l.last)",
		new:      "return l.last",
		pkg:      "./retry",
		test:     "^TestDoStopsWaitingWithTheContext$",
	},
	{
		name:     "retry-spins",
		property: "No policy of the package answers with a wait of zero.",
		file:     "retry/policy.go",
		old:      "return min(max(wait, MinWait), MaxWait)",
		new:      "return min(wait, MaxWait)",
		pkg:      "./retry",
		test:     "^TestNoPolicySpins$",
	},
	{
		name:     "retry-once-too-often",
		property: "NTimes retries no more often than it was told.",
		file:     "retry/policy.go",
		old:      "if max(attempt, 0) >= p.n {",
		new:      "if max(attempt, 0) > p.n {",
		pkg:      "./retry",
		test:     "^TestFixedPolicies$",
	},
	{
		name:     "locks-owner-unchecked",
		property: "A lock node that belongs to another session is never taken for ours.",
		file:     "recipes/locks/lock_internals.go",
		old:      "owner != q.session.ID() {",
		new:      "owner == -1 {",
		pkg:      "./recipes/locks",
		test:     "^TestTheNodeMustBelongToTheSession$",
	},
	{
		name:     "locks-release-on-the-cancelled-context",
		property: "A release is made even when the context it is given has ended.",
		file:     "recipes/locks/hold.go",
		old:      "err := h.l.client.Delete(ctx, h.node.Path, framework.Guaranteed())",
		new:      "err := h.l.client.Delete(ctx, h.node.Path)",
		pkg:      "./recipes/locks",
		test:     "^TestReleaseWithAnEndedContext$",
	},
	{
		name:     "locks-exists-for-get",
		property: "No watch is left on a predecessor that has vanished before it was set.",
		file:     "recipes/locks/lock_internals.go",
		old: `	err := q.l.client.Pipeline(ctx, reads...)
`,
		new: `	stat, err := q.l.client.Exists(ctx, framework.JoinPath(q.l.path, name), framework.Watched(&predecessor))
	if err == nil && stat == nil {
		return nil
	}
	if err == nil && len(reads) > 1 {
		err = q.l.client.Pipeline(ctx, reads[1])
	}
`,
		pkg:  "./recipes/locks",
		test: "^TestThePredecessorGoesBeforeTheWatch$",
	},
	{
		name:     "locks-node-left-on-error",
		property: "An acquisition that fails takes its node out of the queue.",
		file:     "recipes/locks/lock_internals.go",
		old:      "return nil, q.leave(ctx, err)",
		new:      "return nil, err",
		pkg:      "./recipes/locks",
		test:     "^TestTryAcquireDoesNotWait$",
	},
	{
		name:     "locks-loss-by-the-expired-event-only",
		property: "A holder that can reach no server learns of its loss before the next one gets the lock.",
		file:     "framework/state.go",
		old:      "	if !over {\n",
		new:      "	if !over || session != nil {\n",
		pkg:      "./recipes/locks",
		test:     "^TestTheHolderKnowsFirst$/^blackhole,_held",
	},
	{
		name:     "locks-suspended-means-nothing",
		property: "Under StandardErrorPolicy a hold ends when the connection is lost.",
		file:     "framework/session.go",
		old:      "func (s *Session) suspend() { s.linked.Load().end(&LostError{Reason: ReasonSuspended}) }",
		new:      "func (s *Session) suspend() {}",
		pkg:      "./recipes/locks",
		test:     "^TestAcquireAgainAfterALoss$",
	},
	{
		name:     "locks-watch-without-a-look",
		property: "A wake-up of a waiter proves nothing: it looks at the queue again.",
		file:     "recipes/locks/lock_internals.go",
		old: `			if err := q.await(ctx, result.PathToWatch); err != nil {
				return nil, err
			}
`,
		new: `			if err := q.await(ctx, result.PathToWatch); err != nil {
				return nil, err
			}
			return q.grant(), nil
`,
		pkg:  "./recipes/locks",
		test: "^TestAChangedPredecessorIsNoReasonToEnter$",
	},
	{
		name:     "locks-sequence-as-token",
		property: "The token rises also when the folder, and with it the sequence, begins anew.",
		file:     "recipes/locks/lease.go",
		old:      "func (l *Lease) Token() int64 { return l.hold.node.Stat.Czxid }",
		new: `func (l *Lease) Token() int64 {
	n, _ := StandardLockInternalsSorter{mutexName}.Sequence(l.Path())
	return int64(n) + 1
}`,
		pkg:  "./recipes/locks",
		test: "^TestTheTokenRisesWhenTheFolderIsMadeAnew$",
	},
	{
		name:     "locks-order-by-text",
		property: "The queue keeps its order when the sequence number wraps.",
		file:     "recipes/locks/sorter.go",
		old:      "if d := x - y; d != 0 {\n		return cmp.Compare(d, 0)",
		new:      "if x != y {\n		return cmp.Compare(x, y)",
		pkg:      "./recipes/locks",
		test:     "^TestTheQueueKeepsItsOrderAcrossTheWrap$",
	},
	{
		name:     "locks-one-number-for-many",
		property: "Nobody is admitted with a sequence number that several nodes may have.",
		file:     "recipes/locks/driver.go",
		old:      "case sequence == math.MaxInt32:",
		new:      "case sequence == math.MinInt32 && math.MaxInt32 < 0:",
		pkg:      "./recipes/locks",
		test:     "^TestNobodyIsAdmittedWhenTheSequenceIsExhausted$",
	},
	{
		name:     "framework-search-without-an-owner",
		property: "A node found after a lost reply is ours only if our session owns it.",
		file:     "framework/protection.go",
		old:      "if c.cfg.mode.isEphemeral() && stat.EphemeralOwner != c.owner() {",
		new:      "if false {",
		pkg:      "./framework",
		test:     "^TestTheNodeOfAnEarlierSessionIsNotOurs$",
	},
	{
		name:     "framework-request-hops-to-the-next-session",
		property: "A request that is bound to a session never runs in another one.",
		file:     "framework/internal/conduit/conn.go",
		old:      "if call.Session != 0 && call.Session != c.session {",
		new:      "if call.Session < 0 {",
		pkg:      "./framework/internal/conduit",
		test:     "^TestACallBoundToAnotherSessionIsRefused$",
	},
	{
		name:     "framework-late-reply-revives",
		property: "A reply that comes after the deadline does not prolong a lease.",
		file:     "framework/internal/conduit/lease.go",
		old:      "	if l.isOver(now) {\n		return\n	}",
		new:      "	l.over = l.session == 0",
		pkg:      "./framework/internal/conduit",
		test:     "^TestLeaseClock$",
	},
	{
		name:     "framework-credential-renews",
		property: "The answer to a credential does not prolong a lease: the server has not looked at the session.",
		file:     "framework/internal/conduit/auth.go",
		old:      "	case 0:\n		return nil\n",
		new:      "	case 0:\n		now := c.connectSent.Add(2 * c.c.cfg.SessionTimeout)\n		c.c.lease.renew(now, c.connectSent)\n		return nil\n",
		pkg:      "./framework/internal/conduit",
		test:     "^TestAnswersToCredentialsProveNothing$",
	},
	{
		name:     "framework-credential-unanswered",
		property: "No result is relied on before the server has accepted the credentials.",
		file:     "framework/internal/conduit/conn.go",
		old:      "if request.call != nil && len(c.presented) > 0 {",
		new:      "if false {",
		pkg:      "./framework/internal/conduit",
		test:     "^TestBadAnswersToCredentials$/^missing$",
	},
	{
		name:     "framework-credential-retried",
		property: "A credential that was refused is not presented again.",
		file:     "framework/internal/conduit/conduit.go",
		old:      "if c.refused.Load() {",
		new:      "if false {",
		pkg:      "./framework/internal/conduit",
		test:     "^TestARefusedCredentialIsTheEnd$",
	},
	{
		name:     "framework-tls-says-goodbye",
		property: "The end of a TLS connection does not wait for a server that does not read.",
		file:     "framework/tls.go",
		old:      "cut := time.AfterFunc(closeNotifyLimit, func() {",
		new:      "cut := time.AfterFunc(time.Minute, func() {",
		pkg:      "./framework",
		test:     "^TestTheEndOfATLSConnectionIsBounded$",
		flags:    []string{"-timeout=30s"}, // whoever waits for the goodbye stops the clock
	},
	{
		name:     "framework-pings-confirm-the-quorum",
		property: "Under QuorumErrorPolicy only committed writes keep a hold.",
		file:     "framework/internal/conduit/lease.go",
		old:      "	l.remember(sent)\n",
		new:      "	l.quorum = l.deadline\n",
		pkg:      "./framework",
		test:     "^TestOnlyWritesKeepAQuorumHold$",
		flags:    []string{"-timeout=20s"}, // on the fake clock the hold never ends
	},
	{
		name:     "framework-a-write-confirms-itself",
		property: "A committed write confirms only what is a tick older than it.",
		file:     "framework/internal/conduit/quorum.go",
		old:      "if !t.atLeader && sent.Sub(t.sent) < tick {",
		new:      "if !t.atLeader && tick < 0 {",
		pkg:      "./framework/internal/conduit",
		test:     "^TestTheQuorumsDeadline$",
	},
	{
		name:     "framework-heartbeat-left-behind",
		property: "No heartbeat is written, and none is left, once nothing is held.",
		file:     "framework/quorum.go",
		old:      "	_ = t.f.Delete(context.WithoutCancel(t.ctx), t.path, InBackground())\n",
		new:      "",
		pkg:      "./framework",
		test:     "^TestHeartbeatsAreWrittenWhileSomethingIsHeld$",
	},
	{
		name:     "locks-quorum-hold-kept",
		property: "A lease that is released lets go of its session.",
		file:     "recipes/locks/hold.go",
		old:      "	h.end(ErrReleased)\n	h.letGo()\n",
		new:      "	h.end(ErrReleased)\n",
		pkg:      "./recipes/locks",
		test:     "^TestAMutexUnderQuorumErrorPolicy$/^zkserver$",
		flags:    []string{"-timeout=60s"},
	},
}
