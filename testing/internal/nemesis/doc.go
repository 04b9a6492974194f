// SPDX-License-Identifier: Apache-2.0

// Command nemesis hurts three real ZooKeeper servers and their clients at random, and
// then decides whether the locks have kept their promises.
//
//	go -C testing/internal run ./nemesis                                  # 90 seconds of all faults
//	go -C testing/internal run ./nemesis -duration 30m -report /tmp/run   # and keeps the histories
//	go -C testing/internal run ./nemesis -seed 7 -faults N4,N9,N15 -workload mutex,readwrite
//	go -C testing/internal run ./nemesis -faults none -duration 1h -pause 5s   # a soak: is anything leaking?
//	go -C testing/internal run ./nemesis -replay /tmp/run                 # judges a saved run again
//
// It needs Linux, Java, ZooKeeper and network namespaces; see package ensemble. README.md
// in this folder says what is promised under which error policy, and RUNS.md what was run and
// what was found.
//
// # A campaign
//
// A campaign is one or more rounds of at most five minutes. Each round has its own servers,
// with and without TLS, with and without fsync. With TLS the nodes are guarded: clients
// present a digest, only they have rights, and the vandal must be refused (guard.go).
//
// In a round, client processes on separate hosts take turns at locks of every recipe under
// every error policy, and at what only real servers and processes show (workload.go). A family of recipes is a list and a file, such as
// workload_leader.go. Its rows have its folders, its promises with their checks, and its floors. A holder looks at its lease all the time
// (worker.go), and adds to a set that only a transaction of its lease may change (held.go). A process logs every act before it has
// consequences (event.go).
//
// At the same time a schedule injects one fault after the other, or two at once (fault.go,
// schedule.go). Servers are hurt only when all of them are in sync, since ZooKeeper loses
// more otherwise (Ensemble.AwaitSync in testing/ensemble). The seed decides the faults,
// their targets and their durations. The processes react at the machine's own pace, so a
// seed repeats a campaign in outline, not to the letter.
//
// In the end all faults are undone, and every worker must get every lock once more. Then
// nothing may be left: no nodes or watches at the servers, no goroutines in the clients
// (round.go).
//
// # The verdict
//
// The judge reads only these logs, so it can judge a saved run again (load.go, report.go):
//
//	overlaps           two clients had a lock at the same time, both had looked and found it
//	                   theirs; or the servers' transaction log says that the earlier hold was
//	                   still there
//	token_regressions  a token that is not above the earlier tokens, or that no server gave out
//	lost_updates       an acknowledged update of a guarded set that is missing, or there twice
//	illegal, unknown   a history that no lock of its kind can have (package checker); one that
//	                   could not be decided within a minute
//	fifo_inversions    a contender that came later was served earlier
//	over_permits       more holders of a semaphore than permits
//	orphans, watches   what was left at the servers
//	stuck              workers that could not get a lock in the end, or did not end; sessions
//	                   whose end no server confirmed
//	two_leaders        two candidates of one election led at the same time
//
// All of these must be zero. Floors give the zeros a meaning: a minimum of acquisitions,
// faults, ended sessions, losses, and uses of each lock. A campaign adds rounds until the
// floors are reached, at most eight. The exit status is 0 only with all zeros, above all
// floors and within all bounds.
//
// # What ends a hold from outside
//
// No lock can keep a promise to a process that is stopped or killed, or to a holder whose
// session or node another client removes. Such a hold counts up to the beginning of that
// event. The same holds where an error policy promises nothing, for clients that may have been
// connected to a server that was cut off: see README.md (hold.go).
//
// # Faults of the servers
//
// Servers that lose acknowledged transactions make any lock look bad. With proof of a loss,
// the round is void (losses.go); one proof is a hold whose node is in the log of one server
// and was cut off the logs of the others. In a void round only observations that need no
// server are judged, nothing in it counts for the floors, and another round takes its place.
// In any other round no fault of the servers excuses anything.
//
// Servers that are restored from a backup lose what was acknowledged since, as they must. Each
// era between two restores is judged by the log that the servers had in it. What is in the log
// of an era, and not in the next one, may be gone or be done again. Nothing else may (era.go).
package main
