// Package zkserver is a ZooKeeper server in memory, for tests and for trying things out without Java.
//
// It speaks ZooKeeper's own protocol over TCP, so any client can use it unmodified, and answers as Apache ZooKeeper 3.8
// does in standalone mode: the same error for the same mistake, the same Stat, sequence numbers, watch events and their
// order. Its tests play the same requests to both and compare: scripts, and random programs of several clients. Starting one
// takes less than a millisecond.
//
//	srv, err := zkserver.Start()
//	if err != nil { ... }
//	defer srv.Close()
//	conn, _, err := zk.Connect([]string{srv.Addr()}, 5*time.Second)
//
// # Sessions and time
//
// Timeouts are bounded by 2 and 20 ticks; the tick is 500 ms unless [WithTick] says otherwise. A session expires when its
// timeout T has passed since the last request on it, and at most one tick later: never before T. A request of the type
// auth does not count. [Server.KillSession] ends a session at once, [Server.Stop] and [Server.Restart] take the server
// away and bring it back with data and sessions, [Server.Pause] makes it silent.
//
// With [WithoutListener] and [Server.ServeConn] a server works on in-memory connections alone, and so inside a bubble of
// testing/synctest, where its clock is the fake one:
//
//	srv, err := zkserver.Start(zkserver.WithoutListener())
//	client, server := net.Pipe()
//	srv.ServeConn(server)
//
// # Faults
//
// A hook given to [Server.Intercept] sees every request before it is applied and says what becomes of it. This makes the
// reply to the first create get lost, which a client cannot tell from a request that got lost:
//
//	var done bool
//	remove := srv.Intercept(func(r zkserver.Request) zkserver.Fault {
//		if r.Op == zkserver.OpCreate && !done {
//			done = true
//			return zkserver.LoseReply
//		}
//		return zkserver.Pass
//	})
//	defer remove()
//
// [Server.FreezeReads] shows clients an old state of the data, as a server does that has fallen behind.
//
// # What differs from Apache ZooKeeper
//
// Nothing is written to disk, there is no ensemble, no TLS, no SASL, no quota and no super user, and reconfig is refused.
// TTL nodes are always enabled, as are all four-letter words. Passwords of sessions are random, where ZooKeeper computes
// them from the session's id. The names of children come in random order, for clients must sort them anyway. Where
// ZooKeeper 3.8.0 has a fault that later versions do not have, the later ones are followed: watches of several modes on
// one path do not disturb each other, a recursive watch is counted once, checkWatches finds only the client's own watches,
// create2 works in a multi, and who may not read a node gets no events of it and cannot ask whether it exists. A check
// that is not part of a multi is answered, with the node's Stat.
package zkserver
