// Quickstart is the first program to read: several replicas of a service, each
// with a ZooKeeper session of its own, compete to run one nightly report, and a lock
// sees to it that only one runs it at a time.
//
//	go run ./examples/quickstart
//
// needs nothing else: it starts an in-memory ZooKeeper server in the process. To
// use servers that are running:
//
//	go run ./examples/quickstart -connect zk1:2181,zk2:2181,zk3:2181
//
// Start it several times on the same servers, and all replicas of all of them
// compete.
//
// # What to read
//
//   - replica.go is what a service of yours would contain: connect, make a mutex,
//     acquire it, work under the lease, release it, and try again when it was lost.
//   - archive.go is the other half: what a lock protects should refuse the fencing
//     token of a former holder.
//   - checker.go measures that the lock kept its promise. The rest is the play:
//     flags, the printed story, and the accident.
//
// # What happens
//
// Each replica runs the report -rounds times. In the third round the session of one
// holder is killed while it works. Its connection is cut first, and with that its
// lease ends: the holder knows before the server lets go of the lock. Its report
// does not count, another replica gets the lock, and the victim queues again on a
// new session.
//
// The last line sums up what was measured:
//
//	acquisitions=21 overlaps=0 token_regressions=0 lost_while_held=1 acquire_p50=127.352ms acquire_p99=408.664ms
//
// A hold is measured as its holder experiences it, from the return of Acquire to the
// end of the lease or the call of Release; no two may overlap. What no holder can
// be told of in time, such as a pause of its own process, is left to the fencing
// token: see archive.go. The times are those from the call of Acquire to its return,
// the wait for the other replicas included.
//
// The exit status is 1 when two holds overlapped, when a fencing token was not
// greater than all before it, or when the run could not be completed; 2 when the
// flags are wrong. Ctrl-C ends the run early, with its summary.
package main
