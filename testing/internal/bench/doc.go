// Command bench measures the locks of this library side by side with those that
// people use today: Apache Curator (Java), kazoo (Python), the lock of go-zookeeper,
// etcd's, Redsync and Redislock, and with the bare requests that a lock cannot do
// without.
//
//	go run . -peers self,curator,zklock -scenario contended,one-process -out /tmp/bench
//
// It starts the servers it needs, on loopback addresses, and stops them. The peers of a
// scenario run by turns, several rounds of them, so that what changes on the machine
// meanwhile hits all alike; what is printed are medians, one line a measurement:
//
//	scenario=contended clients=8 goroutines=1 metric=turns_per_s self=3900 curator=2350 ratio_to_curator=1.66
//
// A ratio is ours by theirs. Of turns_per_s more is better, of everything else less.
//
// # Scenarios
//
// A turn is an acquisition and a release, with nothing between.
//
//	uncontended   one goroutine; raw is a create and a delete
//	contended     8 clients, one lock
//	one-process   8, and 64, goroutines of one client, one lock; self-handoff is WithLocalHandoff(100)
//	queue         1,000 waiters of 10 clients, drained after all have queued up
//	rw            8 clients, eight turns of ten read
//	semaphore     8 clients, 3 leases
//	herd          2 to 256 clients, against the three locks of the tutorials
//	many          one client acquires 10,000 locks, holds all of them, and releases them
//
// Requests and notifications are counted by the server (mntr), bytes by the loopback
// interface. What a turn costs the clients is the time that their process has had the
// processor, and how often it has allocated; Java and Python do not tell the latter.
//
// Mutual exclusion is checked while measuring. That a lock of ours lets in too many ends
// the run; of the others it is reported.
//
// # What is compared with what
//
// Locks in Redis have no queue and are not fenced by a quorum; they are there for the
// uncontended case only. etcd always forces what it writes to disk, ZooKeeper only with
// -fsync. Curator and kazoo run in processes of their own, and are given the same time
// to warm up.
package main
