// Command nemesis hurts three real ZooKeeper servers and their clients at random, and
// then decides whether the locks have kept their promises.
//
//	go run ./testing/internal/nemesis                                  # 90 seconds of all faults
//	go run ./testing/internal/nemesis -duration 30m -report /tmp/run   # and keeps the histories
//	go run ./testing/internal/nemesis -seed 7 -faults N4,N9,N15 -workload mutex,readwrite
//	go run ./testing/internal/nemesis -faults none -duration 1h -pause 5s   # a soak: is anything leaking?
//	go run ./testing/internal/nemesis -replay /tmp/run                 # judges a saved run again
//
// It needs Linux, Java, ZooKeeper and network namespaces; see package ensemble. README.md
// in this folder tells what is promised under which error policy, what was run, and
// what was found.
//
// # A campaign
//
// A campaign is one round or more, of five minutes at most, each with servers of its own: with and
// without TLS, with and without fsync. With TLS the nodes are guarded: clients present a digest, only they have
// rights, and the vandal must be refused (guard.go). Neither the digest's password nor the key may be in
// anything that the clients have written (secrets.go). In a round, client processes on hosts of their
// own take turns at locks of every recipe under every error policy (workloads.go). A new recipe brings a
// row and a file of its own, and needs no lock: folders, promises and what counts as done come with the row. A
// holder looks at its lease all the time, writes to a register that refuses old
// tokens, and adds to a set that only a transaction of its lease may change (worker.go, held.go).
// Everything is written down before it has consequences (event.go).
//
// Meanwhile a schedule does one fault after the other, or two at the same time (fault.go,
// schedule.go). Servers are hurt only when all of them are in sync, since ZooKeeper loses more
// otherwise (fault_sync.go). The seed decides which, where and for how long. What the processes make of
// it is up to the machine, so that a seed repeats a campaign in its outline and not to the
// letter.
//
// In the end all faults are undone, everybody must get everything once more, and
// then nothing may be left: neither nodes and watches at the servers nor goroutines in the clients
// (round.go).
//
// # The verdict
//
// What is judged is what was written down, so a saved run can be judged again (load.go, report.go):
//
//	overlaps           two had a lock at the same time, both had looked, and found it theirs; or the
//	                   servers' transaction log says that the one before was still there
//	token_regressions  a token that is not above those before, or that no server has given out
//	lost_updates       an acknowledged update of a guarded set that is not there, or there twice
//	illegal, unknown   a history that no lock of its kind can have (package checker), or none was
//	                   found within a minute
//	fifo_inversions    who came later was served earlier
//	over_permits       more holders of a semaphore than permits
//	orphans, watches   what was left at the servers
//	stuck              who could not get a lock in the end, or did not come to an end
//
// A recipe may have promises of its own, which follow (workload in lockspec.go).
//
// All of these must be zero. So that a zero means something there are floors: so many
// acquisitions, faults, ended sessions and losses at least, and so many uses of each lock. A campaign has
// more rounds until they are reached, at most eight. The exit
// status is 0 only with all zeros, above all floors and within all bounds.
//
// # What ends a hold from outside
//
// No lock can keep a promise to a process that is stopped or killed, whose session somebody else
// closes, or whose node somebody deletes. Such a hold counts up to the moment at which that
// began. The same is true where an error policy promises nothing, of clients that may have been connected
// to a server that was cut off: see README.md (hold.go).
//
// # What servers do wrong
//
// Servers that lose what they have acknowledged make any lock look bad. If there is proof that they did, such
// as a hold by a node that is in the log of one server and was cut off those of the others, the round is
// void (losses.go): only that counts of it what clients know among themselves, nothing that was done in
// it counts for the floors, and another round takes its place. In any other
// nothing is excused by what servers did wrong.
package main
