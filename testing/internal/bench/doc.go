// SPDX-License-Identifier: Apache-2.0

// Command bench measures the locks of this library side by side with the locks of
// Apache Curator (Java), kazoo (Python), go-zookeeper, etcd, Redsync and Redislock,
// and with the bare requests that no lock can avoid.
//
//	go run . -peers self,curator,zklock -scenario contended,one-process
//
// It starts the servers that it needs, on loopback addresses, and stops them. The peers of a
// scenario alternate over several rounds, so a change of the machine's load affects all of them
// alike. It prints medians, one line per measurement:
//
//	scenario=contended clients=8 goroutines=1 metric=turns_per_s self=3900 curator=2350 ratio_to_curator=1.66
//
// With -update it replaces the tables of a document by its own results. "make bench-readme" does so
// for two tables of its README.
//
// With -requests it lists the requests of this library, and how long each is under way. Counting
// costs the client a microsecond or two per request.
//
// A ratio is the median over the rounds of this library's figure divided by the peer's. From six
// rounds on, its 95 % confidence interval follows. More is better for turns_per_s, and less for all
// other metrics.
//
// With -failover it measures no turns. It cuts a holder of each lock off from its server while
// another contender waits. To the server this looks like a kill -9. It prints how long the lock had
// no holder, and in how many rounds the holder learned of the loss before the next holder entered.
// All locks have a timeout of ten seconds. The keys in Redis are two seconds old at the cut, and
// are not renewed. The holder of self-guarded is a process in
// the care of curatorctl guard. It is killed by kill -9. Its time begins when the process is gone.
//
// # Scenarios
//
// A turn of a lock is an acquisition and a release, with nothing between.
//
//	uncontended   one goroutine; raw is a create and a delete, self-telemetry has OpenTelemetry's SDK
//	contended     8 clients, one lock
//	herd          the same with 2, 32, 128 and 256 clients
//	one-process   8, and 64, goroutines of one client, one lock; self-handoff is WithLocalHandoff(100)
//	queue         1,000 waiters of 10 clients, one turn each, from the first call to the last release
//	long-queue    the same with 5,000 waiters of 10 clients, and 1,000 and 5,000 of one
//	rw            8 clients, eight turns of ten read
//	semaphore     8 clients, 3 leases
//
// A turn of an election is a leadership. A hand-over lasts from the call that ends it to
// the next leader's first statement.
//
//	election         8 candidates; each leader resigns at once (Curator's closes, and is replaced)
//	election-killed  8 candidates; the session of each leader is closed by another connection
//	electorate       1,000 candidates of 10 clients join; then the leader resigns once
//
// A turn of a verb is one request of one client, from 1, 64 and 1,000 goroutines, and in a
// bulk one of 10,000 known paths. raw-verbs is the client of go-zookeeper, java-verbs that of ZooKeeper
// with its asynchronous calls.
//
//	get, exists, set       of 100 znodes with 100 bytes each
//	create                 of an ephemeral sequential znode below one of them: none is left
//	bulk-get, bulk-exists, bulk-set
//
// Requests and notifications are counted by the server (mntr), bytes by the loopback
// interface. The cost of a turn for the clients is the processor time of their process
// and its number of allocations; Java and Python do not report allocations.
//
// Mutual exclusion is checked while measuring. A violation by a lock of this library ends the run.
// A violation by another lock is reported.
//
// # What is compared with what
//
// Locks in Redis have no queue and no quorum behind them, so they run in the uncontended
// scenario only. etcd always forces its writes to disk, ZooKeeper only with -fsync.
// Curator and kazoo run in their own processes and get the same time to warm up.
package main
