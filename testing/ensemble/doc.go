// SPDX-License-Identifier: Apache-2.0

// Package ensemble runs real Apache ZooKeeper servers for tests: one standalone server, or a quorum of three, five or seven. Each is a Java
// process on loopback ports that a test can kill, restart, pause and ask for its figures.
//
// It needs Java and ZooKeeper's jars. On Debian both come with
//
//	apt-get install zookeeper default-jre-headless
//
// Elsewhere [WithJava] and [WithClassPath] name them, or the environment variable CURATOR_ZOOKEEPER_CLASSPATH:
//
//	CURATOR_ZOOKEEPER_CLASSPATH='/opt/apache-zookeeper-3.9.5/lib/*' go test ./...
//
// If they are missing, [Start] fails with [ErrNotInstalled]. [Server.Version] returns the version of a server, and a
// [Feature] depends on it.
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
// [Ensemble.Close] kills the servers and removes their files. On Linux the servers do not outlive a test process that is killed.
// Their files then stay in a folder named zk-ensemble-*, until the next Start on the same machine removes them.
//
// # Faults
//
// A test chooses a victim by its role and sends it a signal:
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
// [WithTLS], [WithSuperDigest], [WithSASLUsers] and [WithKerberos] let clients authenticate, and [WithRequiredSASL] makes them.
// [Server.Mntr] returns a server's counts for leak checks: zk_watch_count, zk_ephemerals_count, zk_znode_count, and so on.
// [Server.FourLetterWord] sends any other four-letter word.
//
// # Servers that come and go
//
// [WithObservers] adds servers that do not vote. A server joins and leaves while clients work:
//
//	e, err := ensemble.Start(ctx, ensemble.WithSize(3), ensemble.WithConfig("reconfigEnabled", "true"), ensemble.WithSuperDigest("super", "secret"))
//	server, err := e.Add(ctx)
//	_, err = client.Reconfig(ctx, framework.Reconfiguration{Joining: []string{server.Line()}})
//	...
//	_, err = client.Reconfig(ctx, framework.Reconfiguration{Leaving: []string{strconv.Itoa(server.ID())}})
//	err = e.Remove(server)
//
// # Partitions
//
// With [WithNetwork] every server is a separate host with its own address, in a network whose links a test can cut. Clients join the
// network on hosts of their own:
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
// A link that is cut loses all packets, and neither end learns of that. So it behaves like a partition, unlike a proxy
// that closes connections. Kill, Pause and Restart work as without a network. Questions to servers come from a host
// that is never cut off.
//
// The hosts are network namespaces. They need no root where the system grants user namespaces to any user. A helper process keeps
// them, and the test process carries the packets. Both end with Close, and with the test process.
//
// # What is tuned, and why
//
// Defaults favour a short test over realism. tickTime is 500 ms, so session timeouts from 1 to 10 s can be negotiated. With
// syncLimit 2 and zookeeper.cnxTimeout 500 ms a lost leader is replaced in about two seconds; with ZooKeeper's own defaults a
// fault of five seconds would end before the election. Empty containers are collected every 200 ms. TTL nodes and all four-letter
// words are enabled, connections are not limited, and the admin server is off. Files live in memory (/dev/shm) where possible, and
// writes are not forced to disk; see [WithFsync].
//
// # What is not promised
//
// The servers share one machine and one clock, and without [WithNetwork] one network stack. A network has no speed limit and loses
// no packets at random.
package ensemble
