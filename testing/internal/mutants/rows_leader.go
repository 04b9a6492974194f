// SPDX-License-Identifier: Apache-2.0

package main

var leaderRows = []row{
	{
		name: "end-told-after-the-node-is-gone", breaks: lossFirst,
		in:     "recipes/leader.(*LeaderLatch).lead",
		change: postpone("end()"),
		test:   "^TestLatchEndIsToldBeforeTheNodeGoes$",
	},
	{
		name: "leader-without-a-session", breaks: oneHolder,
		in:     "recipes/leader.(*election).HasLeadership",
		change: always("Err()"),
		test:   "^TestLatchRaceLeaderWhoseSessionIsOverDoesNotLead$", flags: []string{"-short"},
	},
	{
		name: "term-begins-after-its-end", breaks: oneHolder,
		in:     "recipes/leader.(*LeaderSelector).standOnce",
		change: drop("return", "Cause()"),
		test:   "^TestLatchRaceTermDoesNotBeginWithAnEndedContext$", flags: []string{"-short"},
	},
	{
		name: "run-marked-without-its-lock", breaks: oneHolder,
		in:     "recipes/leader.(*Once).mark",
		change: become("$r.client.Transact", "Transact"),
		test:   "^TestOnceRunThatHasLostItsLockIsNotMarked$", flags: []string{"-short"},
	},
	{
		name: "doubt-about-a-marker-forgotten", breaks: atMostOnce,
		in:     "recipes/leader.(*Once).mark",
		change: drop("Or()"),
		test:   "^TestOnceDoubtAboutTheMarkerStays$",
	},
	{
		name: "listener-under-the-lock", breaks: userCodeApart,
		in:     "recipes/leader.(*LeaderLatch).OnChange",
		change: become("$r.changes.Add(func(c Change) { $r.mu.Lock(); defer $r.mu.Unlock(); $1(c) })", "Add()"),
		test:   "^TestLatchRaceListenerMayCallTheLatch$", flags: []string{"-short", "-timeout=60s"},
	},
}
