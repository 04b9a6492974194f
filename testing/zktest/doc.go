// SPDX-License-Identifier: Apache-2.0

// Package zktest gives tests a ZooKeeper server, and clients that are closed when the
// test ends. The server is an embedded one that starts in a millisecond and needs no
// Java, or real Apache ZooKeeper processes.
//
// # One test, one server
//
//	func TestReport(t *testing.T) {
//		server := zktest.NewServer(t)
//		client := zktest.Client(t, server)
//		...
//		zktest.KillSession(t, client)      // what if the session dies here?
//	}
//
// [NewServer] returns a [zkserver.Server], which can be told to lose the k-th request or
// its reply, to fall silent, to stop and to restart. [NewEnsemble] returns real servers,
// [ensemble.Ensemble], which can be killed and paused; they need the packages that its
// error names. [NewProxy] returns a proxy between a client and any server. The proxy
// cuts, delays and swallows requests and replies. [ClientViaProxy] returns one with a client
// behind it. [At] is for a server of which only the address is known.
//
// # Testing an application
//
// Suppose that an application works for as long as it holds a lock:
//
//	func runReporter(ctx context.Context, client *framework.Framework, report func(context.Context) error) error {
//		mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
//		if err != nil {
//			return err
//		}
//		return mutex.Do(ctx, report)
//	}
//
// A test must show what happens when the session expires, and that takes seconds. Inside
// a bubble of testing/synctest it takes no time, because the fake clock jumps to the
// next timer when all goroutines wait. [Client] reaches a server made
// [zkserver.WithoutListener] in memory, so server, client and application can all be in
// the bubble. This test cuts the holder off and lets its session expire. It sees another
// process take over, in a few milliseconds:
//
//	func TestAnotherReporterTakesOver(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			server := zktest.NewServer(t, zkserver.WithoutListener())
//			t.Cleanup(func() { zktest.AssertClean(t, server) })
//			client, rival := zktest.Client(t, server), zktest.Client(t, server)
//
//			reporting, stopped := make(chan struct{}), make(chan error, 1)
//			go func() {
//				stopped <- runReporter(t.Context(), client, func(ctx context.Context) error {
//					close(reporting)
//					<-ctx.Done() // the work stops with its context
//					return context.Cause(ctx)
//				})
//			}()
//			zktest.Await(t, reporting, "the report")
//
//			took := make(chan error, 1)
//			go func() {
//				took <- runReporter(t.Context(), rival, func(context.Context) error { return nil })
//			}()
//			zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { // it waits for the lock
//				return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData && e.SessionID == rival.Session().ID()
//			})
//
//			began := time.Now()
//			heal := server.Blackhole(client.Session().ID(), zkserver.Both)
//			var lost *locks.LostError
//			require.ErrorAs(t, zktest.Await(t, stopped, "the end of the report"), &lost)
//			require.Empty(t, took, "the rival comes after that")
//			require.NoError(t, zktest.Await(t, took, "the rival's turn"))
//			require.Less(t, time.Since(began), 32*time.Second) // of the fake clock
//			heal()
//		})
//	}
//
// Four things make it a test that can be relied on. It waits for what must happen before
// it goes on, with [Await], [AwaitState] and [AwaitEvent], and never sleeps. It injects
// a fault at a chosen place, and waits until the server's log shows that the place was
// reached. It checks the cause of the end, so that it cannot pass for another reason.
// [AssertClean] checks that nothing is left at the server: it fails if a lock is not
// released or a client is not closed.
//
// Inside a bubble, a goroutine that waits for a socket, or holds a sync.Mutex while it
// waits, keeps the clock from moving. If a test cannot avoid that, it uses a server that
// listens, and real time:
//
//	func TestReporterWhoseCreateGetsLost(t *testing.T) {
//		server := zktest.NewServer(t)
//		t.Cleanup(func() { zktest.AssertClean(t, server) })
//		client := zktest.Client(t, server)
//		server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.LoseReply))
//
//		turns := 0
//		require.NoError(t, runReporter(t.Context(), client, func(context.Context) error { turns++; return nil }))
//		require.Equal(t, 1, turns)
//		zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Fault == zkserver.LoseReply })
//	}
//
// A black hole for both directions is a process that was killed, as its servers see it. With a guard (see
// framework.WithGuard) the session ends at once, as after [zkserver.Server.KillSession].
//
// Package [zkserver] lists what else can be made to go wrong.
//
// # The same test on every kind of server
//
//	func TestMain(m *testing.M) { zktest.Main(m) }
//
//	func TestExclusion(t *testing.T) {
//		zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
//			client := zktest.Client(t, server) // below a chroot of its own
//		})
//	}
//
// A real server takes a second to start, so [EachBackend] shares one among the
// tests of a package; each subtest gets a chroot of its own. With -short there is
// only the embedded one.
//
// # When a follower does not have it yet
//
// Three embedded servers replicate as ZooKeeper's do. A test has one of them lag:
//
//	synctest.Test(t, func(t *testing.T) {
//		servers := zktest.NewEmbeddedEnsemble(t, 3, zkserver.WithoutListener())
//		behind := servers.Followers()[0]
//		writer, reader := zktest.Client(t, servers.Leader()), zktest.Client(t, behind)
//		servers.Lag(behind, time.Second, 0)
//		writer.Create(t.Context(), "/config", nil)
//		stat, err := reader.Exists(t.Context(), "/config") // stat is nil
//		err = reader.Sync(t.Context(), "/config")          // takes a second
//		stat, err = reader.Exists(t.Context(), "/config")
//	})
//
// Package zkserver lists the other faults of several servers. Package zksim plays random programs with them.
//
// # Waiting
//
// No function of this package waits for a fixed time. Some things end by themselves, but
// not at once, such as the nodes of an expired session on a shared server.
// [Backend.AwaitCounts] waits for their end, and fails the test if they stay.
package zktest
