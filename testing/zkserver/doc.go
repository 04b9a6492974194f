// SPDX-License-Identifier: Apache-2.0

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
// Timeouts are bounded by 2 and 20 ticks; the tick is 500 ms unless [WithTick] sets another. A session with the timeout T
// expires between T and T plus one tick after its last request, never before T. Requests of the types auth and sasl do
// not count. A request that has arrived counts at once, however long it then waits for others. Ticks that the server
// misses, because one request takes long or the process stands still, count for no session.
//
// [Server.KillSession] ends a session at once. [Server.Stop] and [Server.Restart] take the server away and bring it back
// with data and sessions. [Server.Pause] makes it silent.
//
// The server has no clock to set, because testing/synctest has a fake clock. A server made [WithoutListener], whose
// clients connect in memory with [Server.Dial], runs inside a bubble together with them. A session of ten seconds then
// expires in no time:
//
//	synctest.Test(t, func(t *testing.T) {
//		srv, err := zkserver.Start(zkserver.WithoutListener())
//		client, err := framework.New("memory:2181", framework.WithDialer(srv.Dial))
//
// A fake clock in the server alone would not help, because the client's clock must agree with it.
//
// # Faults
//
// A hook given to [Server.Intercept] sees every request before it is applied, and returns a fault. This one loses the
// reply to the first create, which a client cannot tell from a lost request:
//
//	remove := srv.Intercept(zkserver.Nth(1, zkserver.OpCreate, zkserver.LoseReply))
//	defer remove()
//
// A client of package framework sends OpCreate2, for a container OpCreateContainer and for a znode with a time to live
// OpCreateTTL; OpCreate is go-zookeeper's.
//
// This hook delays the requests below one path:
//
//	srv.Intercept(func(r zkserver.Request) zkserver.Fault {
//		if strings.HasPrefix(r.Path, "/locks/") {
//			return zkserver.Delay(time.Second)
//		}
//		return zkserver.Pass
//	})
//
// Faults and the calls that cause them, most of them for one session or for all:
//
//	a request or a reply is lost            LoseRequest, LoseReply, NeverAnswer, ApplyNeverAnswer
//	an error, garbage                       FailWith, RespondWith, Server.Send
//	a kind of request is unknown            FailWith(-6), or WithVersion for all that a version lacks
//	latency, a request that hangs           Delay, HoldUntil
//	a connection ends, once or repeatedly   Server.Cut
//	connections are refused                 Server.Refuse
//	the network is silent, or slow          Server.Blackhole, Server.Throttle
//	the process is stopped, starts again    Server.Pause, Server.Stop, Server.Restart
//	servers come back from a backup, empty  Server.Backup, Server.Restore
//	a session ends                          Server.KillSession
//	reads are stale                         Server.FreezeReads: a follower that lags behind
//	pings are answered, the session expires Server.CutOff: a follower that has lost its leader
//	there is no quorum                      Server.LoseQuorum: reads only, for clients that accept them
//
// No fault is random, and every fault can be observed: [Server.Log] lists in order what happened to connections, sessions
// and requests. [Server.Await] waits for an entry of that list, where a test would otherwise sleep:
//
//	_, err := srv.Await(ctx, func(e zkserver.Event) bool {
//		return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData // the waiter watches
//	})
//
// Package zkproxy has the faults of the network for any server.
//
// # Three servers
//
// [NewEnsemble] starts three or five servers in one process. They replicate as ZooKeeper's do, so a test can show what a program
// does when a follower has not got a write yet:
//
//	e, err := zkserver.NewEnsemble(3, zkserver.WithoutListener())
//	defer e.Close()
//	client, err := framework.New(e.ConnectString(), framework.WithDialer(e.Dial))
//	behind := e.Followers()[0]
//	catchUp := e.Lag(behind, time.Minute, 0)
//
// These calls make the trouble that only several servers have:
//
//	a follower lags behind                  Ensemble.Lag, until a time has passed or others were committed
//	a server is cut off and does not know   Ensemble.Isolate, Ensemble.Cut, Ensemble.CutOneWay
//	servers hear each other late            Ensemble.Delay
//	another server leads                    Ensemble.ChangeLeader
//	clocks are fast, or slow                Ensemble.ClockRate
//	there is no majority                    Server.Stop, of two
//	a server is taken out, or put in again  Ensemble.Leave, Ensemble.Join
//	acknowledged writes are gone            Ensemble.LoseUnsynced, Ensemble.Restore
//
// A server answers reads from what it has applied. A sync, and a client's own write, bring it up to date. A server refuses a
// client that has seen a later transaction. A leader or follower that is cut off goes on answering for syncLimit ticks
// ([WithSyncLimit]), while sessions on its side may expire. A server without a leader ends its connections. After two ticks it
// is read-only. Clients that accept this may read. All servers have one log: Event.Server is the server. [WithObservers] adds
// servers without a vote.
//
// A client sees of a reconfiguration that /zookeeper/config changes, and of a server that is stopped when it has left what it sees of any server
// that stops. Requests of the type reconfig are refused. A server that comes back with an older backup, or with nothing ([Server.Restore]), gets
// all that the leader has before it serves. It should leave the ensemble meanwhile: if it votes without what it had, as in ZooKeeper, acknowledged
// writes may go.
//
// A server that joins a leader gets all of its data at once. Leaders are elected 200 ms after the old one is lost, without a second round. FreezeReads, CutOff and
// LoseQuorum are for a server that stands alone.
//
// # What it costs
//
// Starting a server with its first session takes half a millisecond. A client creates and deletes an ephemeral sequential
// node some 20,000 times a second over loopback, on two cores that it shares with the server. A znode takes about 350
// bytes of heap, including a path of 24 bytes and data of 9. A watch takes about as much, a session 800 bytes
// (BenchmarkStart, BenchmarkCreateAndDelete, BenchmarkMemory).
//
// The memory that a client can make the server keep is bounded: a request by [WithMaxFrame], all connections and sessions
// together by [WithMaxMemory], and the log by events and bytes. The data of znodes is not bounded. A connection has at most
// 1,000 identities beside its address; a further one is refused as one that is wrong. The entries of the scheme auth in one
// request stand for at most 131,072 others. A request may cost about four million comparisons of an identity with an entry
// of an ACL; then it lacks permissions, and connections whose watches it would fire are cut instead.
//
// # What differs from Apache ZooKeeper
//
// Nothing is written to disk. There is no Kerberos, no quota and no identity of the scheme x509. Reconfig is
// refused, as on a standalone server. TTL nodes are always enabled, and so are all four-letter words but dirs, gtmk, stmk,
// hash and lead, which the server does not know. A connection that never asks
// for a session is kept. Passwords of sessions are random; ZooKeeper computes them from the session's id. The names of
// children come in random order, because clients must sort them anyway. In an ensemble the order follows from the tree.
//
// Where ZooKeeper 3.8.0 has a fault that later versions have fixed, this server follows the later versions. Watches of
// several modes on one path do not disturb each other. A recursive watch is counted once. checkWatches finds only the
// client's own watches. create2 works in a multi. A client that may not read a node gets no events of it, and cannot ask
// whether it exists. A check outside a multi is answered, with the node's Stat. An unknown user of DIGEST-MD5 does not pass with
// the password of the one before.
package zkserver
