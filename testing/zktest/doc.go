// Package zktest gives tests a ZooKeeper: an embedded one that starts in a
// millisecond and needs no Java, or real Apache ZooKeeper processes, and clients
// that are closed when the test ends.
//
// # One test, one server
//
//	func TestReport(t *testing.T) {
//		server := zktest.NewServer(t)
//		client := zktest.Client(t, server.Addr())
//		...
//		zktest.KillSession(t, client)      // what if the session dies here?
//	}
//
// [NewServer] returns a [zkserver.Server], which can be told to lose the k-th
// request or its reply, to stop and to restart. [NewEnsemble] returns real servers,
// [ensemble.Ensemble], which can be killed and paused; they need the packages that
// its error names. [NewProxy] stands between a client and any server and cuts,
// delays and swallows what goes through.
//
// # The same test on every kind of server
//
//	func TestMain(m *testing.M) { os.Exit(zktest.WithSharedServers(m).Run()) }
//
//	func TestExclusion(t *testing.T) {
//		zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
//			client := zktest.Client(t, server.ConnectString()) // below a chroot of its own
//		})
//	}
//
// A real server takes a second to start, so [EachBackend] shares one among the
// tests of a package; each subtest gets a chroot of its own. With -short there is
// only the embedded one.
//
// # Waiting
//
// Nothing here sleeps and hopes. What ends by itself, but not at once, such as the
// deletion of an expired session's nodes, is awaited with [Backend.AwaitCounts],
// which fails the test when it does not come.
package zktest
