// Package interop has Apache Curator itself take part in tests: a Java process that
// does with Curator's own classes what a Go test tells it, on the paths and the
// server that the Go side uses. A Python process does the same with kazoo.
//
// It needs a Java compiler and Curator's jars, or kazoo; on Debian they come with
//
//	apt-get install libcurator-recipes-java default-jdk-headless
//	apt-get install python3-kazoo
//
// Where they are missing [Start] and [StartKazoo] fail with [ErrNotInstalled]; they never
// pretend.
//
// # Actors
//
// [Start] compiles the program in the folder java and runs it. An [Actor] in it is
// a thread with a client of its own, since Curator's locks belong to threads:
//
//	java, err := interop.Start(ctx)
//	if err != nil {
//		t.Fatal(err)
//	}
//	defer java.Close()
//	alice := java.Actor("alice")
//	_, err = alice.Do(ctx, "connect", server.ConnectString(), "10000")
//	_, err = alice.Do(ctx, "mutex", "report", "/locks/report")
//	hold, err := alice.Do(ctx, "acquire", "report")   // the node's path, its czxid
//
// Commands and their results are strings; java/Actor.java, java/Data.java and java/Values.java list
// them, and python/peer.py those of [StartKazoo]. What Java throws is a [*JavaError],
// what Python raises a [*PythonError]. An actor does one thing after another, so a
// command that waits for a lock keeps the others of its actor waiting.
//
// # What its tests show
//
// That both sides keep out, queue behind, count, revoke and read each other: on the
// embedded server and on real ZooKeeper, with evidence that the kernel puts in order.
// Four clients of each side, or more, have two thousand holds of every lock that both
// know. Only the downgrade is Go's alone: in Curator 5.4 it lets another writer in.
//
// And that each reads what the other writes: compressed data, nodes with a time to
// live, containers, access control lists, transactions, namespaces and chroots; and
// finds by their protection the nodes that the other has created.
//
// A program that is to share locks with Java finds there what has been tried.
//
// kazoo's Lock and Semaphore contend with locks of ours that are made for it, a thousand
// holds of each; what kazoo does otherwise, and what keeps it from sharing more, has a
// test of its own. All of kazoo's recipes come out the same on the embedded server as on
// ZooKeeper.
//
// All of it is tried on the program examples/devserver as well, with fewer holds: that is
// the embedded server in a process of its own, which clients and tools in any language can
// use.
// With -kazoos-own, kazoo's own tests are run on it, too.
//
// # Known peers
//
// The situations in which recipes/locks is tested, a holder that is cut off, a reply that
// gets lost, a foreign node in the folder, are also put to zk.Lock, which go-zookeeper
// comes with, and to Curator's InterProcessMutex. peers_test.go lists the tests. They
// assert what the peer does, right or wrong: a situation that nobody fails in would prove
// little, and a peer that has been mended fails its test here.
package interop
