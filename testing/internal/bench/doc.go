// SPDX-License-Identifier: Apache-2.0

// Command bench measures the locks of this library side by side with the locks of
// Apache Curator (Java), kazoo (Python), go-zookeeper, etcd, Redsync and Redislock,
// and with the bare requests that no lock can avoid.
//
//	go run . -peers self,curator,zklock -scenario contended,one-process -out /tmp/bench
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
// are not renewed.
//
// # Scenarios
//
// A turn of a lock is an acquisition and a release, with nothing between.
//
//	uncontended   one goroutine; raw is a create and a delete, self-telemetry has OpenTelemetry's SDK
//	contended     8 clients, one lock
//	one-process   8, and 64, goroutines of one client, one lock; self-handoff is WithLocalHandoff(100)
//	queue         1,000 waiters of 10 clients, drained after all have queued up
//	long-queue    the same with 5,000 waiters of 10 clients, and 1,000 and 5,000 of one
//	rw            8 clients, eight turns of ten read
//	semaphore     8 clients, 3 leases
//	herd          2 to 256 clients, against the three locks of the tutorials
//	many          one client acquires 10,000 locks, holds all of them, and releases them
//
// A turn of an election is a leadership. A hand-over lasts from the call that ends it to
// the next leader's first statement.
//
//	election         8 candidates; each leader resigns at once (Curator's closes, and is replaced)
//	election-killed  8 candidates; the session of each leader is closed by another connection
//	electorate       1,000 candidates of 10 clients join; then the leader resigns once
//
// A cache follows a tree of -nodes znodes of 100 bytes, a thousand in a folder.
//
//	caches   the first fill, changes by one writer and by eight, and cuts of the connection
//	         during which nothing changes, 100 znodes do, or all do
//
//	children  caches of the folders alone, a hundred znodes in each: the first fill, a cut during which
//	          nothing changes, and a change of each znode that is not kept
//
// A fill lasts from the start of the cache until its listener knows that the picture is full;
// raw-reads reads the same paths with the same window and keeps nothing. The lag of an event runs
// from before the write to the listener. After a cut the time runs from the moment at which the way
// to the server is free, so it contains the client's pause before it connects again: until the listener has
// been told of all changes, or until the server gets no more requests if there are none. While all
// znodes are read again, the client makes other requests, one after the other; other_p99 is their latency.
//
// A turn of a transaction reads four znodes and writes two of them. A turn of a folder reads
// its children with their data.
//
//	txn           8 clients, the same four znodes; raw-txn is a multi by hand, etcd-txn the STM
//	whole-folder  10,000 children: ChildrenData, a list and one read after the other, a list and a bulk
//
// Counters, barriers and queues are compared with Curator's only: peers self-values and
// curator-values.
//
//	counter          8 clients increment one counter; then 64 goroutines of one client. A turn is
//	                 an increment. Curator's pauses after a collision are set to ours
//	double-barrier   100, and 1,000, members on 10 clients enter and leave, round after round.
//	                 A turn is a round; the servers' figures are for each member of each round
//	items-...        1,000 items are put by one client, then consumed by one consumer on another:
//	                 fifo, locked (WithLockPath), priority, delay, id, simple. A turn is an item.
//	                 Puts are made in the background, as Curator's default is, but for simple
//
// A change of a service is the registration of an instance and, once all watchers have it,
// its removal. It is seen when a watcher's listener gets the picture with the instance,
// counted from the call that registers it. A hundred thousand look-ups of a provider follow.
//
//	discovery     10 clients register 1,000 instances, 50 others watch them
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
// Curator and kazoo run in their own processes and get the same time to warm up. Curator's
// cache is filled three times from a tree of a tenth before it is measured. kazoo's TreeCache is
// only filled, within a minute, and its memory is that of the process.
package main
