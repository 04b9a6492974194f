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
// timeout T has passed since the last request on it, and at most one tick later: never before T. Requests of the
// types auth and sasl do not count. A request that has arrived counts before sessions expire, however long it waits for
// others. Ticks that the server misses, because one request takes long or the process stands still, count for no
// session. [Server.KillSession] ends a session at once, [Server.Stop] and [Server.Restart] take the server
// away and bring it back with data and sessions, [Server.Pause] makes it silent.
//
// There is no clock to set: the fake one is that of testing/synctest. A server made [WithoutListener], whose clients
// connect in memory with [Server.Dial], runs inside a bubble together with them, and a session of ten seconds expires
// in no time:
//
//	synctest.Test(t, func(t *testing.T) {
//		srv, err := zkserver.Start(zkserver.WithoutListener())
//		client, err := framework.New("memory:2181", framework.WithDialer(srv.Dial))
//
// A clock of the server's own could not do that, for the client's would have to be changed as well.
//
// # Faults
//
// A hook given to [Server.Intercept] sees every request before it is applied and says what becomes of it. This makes the
// reply to the first create get lost, which a client cannot tell from a request that got lost:
//
//	remove := srv.Intercept(zkserver.Nth(1, zkserver.OpCreate, zkserver.LoseReply))
//	defer remove()
//
// This one fails what a predicate accepts:
//
//	srv.Intercept(func(r zkserver.Request) zkserver.Fault {
//		if strings.HasPrefix(r.Path, "/locks/") {
//			return zkserver.Delay(time.Second)
//		}
//		return zkserver.Pass
//	})
//
// What can go wrong, and what makes it do so; most of it for one session or for all:
//
//	a request or a reply is lost            LoseRequest, LoseReply, NeverAnswer, ApplyNeverAnswer
//	an error, garbage                       FailWith, RespondWith, Server.Send
//	a kind of request is unknown            FailWith(-6), or WithVersion for all that a version lacks
//	latency, a request that hangs           Delay, HoldUntil
//	a connection ends, also twice in a row  Server.Cut
//	connections are refused                 Server.Refuse
//	the network is silent, or slow          Server.Blackhole, Server.Throttle
//	the process is stopped, starts again    Server.Pause, Server.Stop, Server.Restart
//	a session ends                          Server.KillSession
//	reads are stale                         Server.FreezeReads: a follower that lags behind
//	pings are answered, the session expires Server.CutOff: a follower that has lost its leader
//	there is no quorum                      Server.LoseQuorum: reads only, for clients that can do with them
//
// Nothing of it is left to chance, and all of it can be seen: [Server.Log] lists in order what happened to connections,
// sessions and requests, and [Server.Await] waits for something to get into that list, which is what a test should do
// instead of sleeping:
//
//	_, err := srv.Await(ctx, func(e zkserver.Event) bool {
//		return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData // the waiter watches
//	})
//
// Package zkproxy has the faults of the network for any server.
//
// # What it costs
//
// A server with its first session is there in half a millisecond. A client creates and deletes an ephemeral sequential
// node some 20,000 times a second over loopback, on two cores that it shares with the server. A znode takes about 350
// bytes of heap, with a path of 24 and data of 9 among them, a watch about as much, a session 800 (BenchmarkStart,
// BenchmarkCreateAndDelete, BenchmarkMemory).
//
// What a client can make the server keep is bounded: a request by [WithMaxFrame], all that connections hold together by
// [WithMaxMemory], and the log by events and bytes. Znodes are not: they take what clients write.
//
// # What differs from Apache ZooKeeper
//
// Nothing is written to disk, there is no ensemble, no SASL, no quota and no identity of the scheme x509, and reconfig is
// refused, in the way of a server that is alone. TTL nodes are always enabled, as are all four-letter words. A connection
// that never asks for a session is kept. Passwords of sessions are random, where ZooKeeper computes them from the session's
// id. The names of children come in random order, for clients must sort them anyway. Where ZooKeeper 3.8.0 has a fault
// that later versions do not have, the later ones are followed: watches of several modes on one path do not disturb each
// other, a recursive watch is counted once, checkWatches finds only the client's own watches, create2 works in a multi, and
// who may not read a node gets no events of it and cannot ask whether it exists. A check that is not part of a multi is
// answered, with the node's Stat.
package zkserver
