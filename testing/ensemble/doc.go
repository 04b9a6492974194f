// Package ensemble runs real Apache ZooKeeper servers for tests: one standalone server or a quorum of three, each a Java process of
// its own on loopback ports, which a test can kill, restart, pause and ask for its figures.
//
// It needs Java and ZooKeeper's jars; on Debian both come with
//
//	apt-get install zookeeper default-jre-headless
//
// and elsewhere from [WithJava] and [WithClassPath], or from the environment variable CURATOR_ZOOKEEPER_CLASSPATH:
//
//	CURATOR_ZOOKEEPER_CLASSPATH='/opt/apache-zookeeper-3.9.5/lib/*' go test ./...
//
// [Server.Version] is what a server says it is, and [Feature] what depends on that. Where they are missing [Start] fails with [ErrNotInstalled]; it never pretends.
//
// # Start and connect
//
// [Start] returns when every server serves clients, after one to three seconds:
//
//	e, err := ensemble.Start(ctx, ensemble.WithSize(3))
//	if err != nil {
//		t.Fatal(err)
//	}
//	t.Cleanup(func() { e.Close() })
//	conn, events, err := zk.Connect(strings.Split(e.ConnectString(), ","), 5*time.Second)
//
// [Ensemble.Close] kills what is left and removes the files. The servers do not outlive the test process either when that is
// killed: on Linux the kernel kills them with it. Their files stay behind in that case, in a folder named zk-ensemble-*, until the
// next Start on the same machine removes them.
//
// # Faults
//
// A test chooses a victim by role and hurts it by signal:
//
//	leader, err := e.Leader(ctx)       // waits until there is exactly one, with a quorum behind it
//	err = leader.Kill()                // SIGKILL: gone when Kill returns
//	next, err := e.Leader(ctx)         // the survivors have elected another
//	err = leader.Restart(ctx)          // same address, same data; serves when Restart returns
//
//	err = next.Pause()                 // SIGSTOP: TCP still accepts, no server answers
//	err = next.Resume()
//
//	err = e.Restart(ctx)               // power cut: all servers killed, then started together
//
// [WithTLS] and [WithSuperDigest] set up what clients can prove themselves with.
// [Server.Mntr] tells what a server holds, for leak checks: zk_watch_count, zk_ephemerals_count, zk_znode_count, and so on.
// [Server.FourLetterWord] sends any of ZooKeeper's other four letter words.
//
// # Partitions
//
// With [WithNetwork] every server is a host of its own, with its own address, in a network whose links a test can cut. Clients join it
// on hosts of theirs:
//
//	e, err := ensemble.Start(ctx, ensemble.WithSize(3), ensemble.WithNetwork())
//	network := e.Network()
//	host, err := network.Join("client")
//	client, err := framework.Connect(ctx, e.ConnectString(), framework.WithDialer(host.DialContext))
//
//	network.Isolate(follower.Host(), host)    // these two on one side, all others on the other
//	network.Cut(a.Host(), b.Host())           // one link; CutOneWay cuts one direction of it
//	network.Delay(a.Host(), host, 50*time.Millisecond)
//	network.HealAll()
//
// What is sent over a link that is cut is lost, and neither end learns of it: that is what a partition is like, and what a proxy that closes
// connections is not. Kill, Pause and Restart work as without a network, and so do the questions to servers, which come from a host
// that nothing cuts off.
//
// The hosts are network namespaces, made in a user namespace where the system lets any user have one: root is not needed then.
// A process of its own keeps them, and this one carries the packets from host to host. Both are gone after Close, and when the
// test process dies.
//
// # What is tuned, and why
//
// Defaults favour a short test over realism. tickTime is 500 ms, so session timeouts from 1 to 10 s can be negotiated, and with
// syncLimit 2 and zookeeper.cnxTimeout 500 ms a lost leader is replaced in about two seconds: with ZooKeeper's own defaults a
// fault of five seconds is over before the election is. Empty containers are collected every 200 ms, TTL nodes are
// enabled, all four letter words are allowed, connections are not limited, and the admin server is off. Files live in memory
// (/dev/shm) where there is such a thing, and writes are not forced to disk; see [WithFsync].
//
// # What is not promised
//
// The servers share one machine and one clock, and without [WithNetwork] one network stack. A network has no limits of speed and
// loses nothing by chance.
package ensemble
