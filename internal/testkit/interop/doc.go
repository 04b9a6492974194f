// SPDX-License-Identifier: Apache-2.0

// Package interop lets Apache Curator itself take part in tests: a Java process does with
// Curator's own classes what a Go test tells it, on the same server and the same paths. A
// Python process does the same with kazoo.
//
// It needs a Java compiler and Curator's jars, or kazoo; on Debian they come with
//
//	apt-get install libcurator-recipes-java libcurator-discovery-java default-jdk-headless
//	apt-get install python3-kazoo
//
// If they are missing, [Start] and [StartKazoo] fail with [ErrNotInstalled].
//
// # Actors
//
// [Start] compiles the program in the folder java and runs it. An [Actor] is a thread of
// that program with its own client, because Curator's locks belong to threads:
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
// Commands and their results are strings. java/Actor.java, java/Data.java and
// java/Values.java list the commands of Java, python/peer.py the commands of [StartKazoo].
// An exception in Java is a [*JavaError], one in Python a [*PythonError]. An actor runs one
// command after another, so a command that waits for a lock blocks the next command.
//
// # What its tests show
//
// Both sides exclude, queue behind, count, revoke and read each other, on the embedded
// server and on real ZooKeeper. The evidence is ordered by the kernel. At least four
// clients of each side share the holds of every lock that both know. Only the
// downgrade is Go's alone: in Curator 5.4 it lets another writer in.
//
// Each side reads what the other writes: compressed data, nodes with a time to live,
// containers, access control lists, transactions, namespaces and chroots. Each side finds
// the protected nodes that the other has created. A CuratorCache with limits keeps the znodes
// that Curator's TreeCache and PathChildrenCache keep.
//
// kazoo's Lock and Semaphore contend with locks of ours that are made for them. Every other
// difference of kazoo has its own test. All of kazoo's recipes behave the same on the
// embedded server and on ZooKeeper.
//
// The recipes of kazoo also run against the program examples/devserver: the embedded server
// as a process, for clients and tools in any language. With -kazoos-own, kazoo's own tests
// run on it too.
//
// # Known peers
//
// zk.Lock of go-zookeeper and Curator's InterProcessMutex go through the situations in
// which recipes/locks is tested: a holder that is cut off, a lost reply, a foreign node in
// the folder. peers_test.go lists the tests. They assert what the peer does, right or
// wrong. A situation in which no lock fails would prove little, and a peer that has been
// fixed fails its test here.
package interop
