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
}
