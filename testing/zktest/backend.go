// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
)

// Backend is one server of any kind, for tests that must pass on all of them.
type Backend struct {
	Admin

	name string
	addr string
	root string
	dial framework.Dialer // nil for TCP

	keeper bool // made WithKeeper
}

// Counts is what clients have left at a server.
type Counts struct {
	Ephemerals int
	Watches    int // pairs of path and connection
	Sessions   int // sessions alive, connected or not
}

// Name is "zkserver", "zookeeper", "keeper", "follower" or what [At] was given.
func (b Backend) Name() string { return b.name }

// Addr is the server's host:port.
func (b Backend) Addr() string { return b.addr }

// ConnectString is Addr with a chroot that no other test uses.
func (b Backend) ConnectString() string { return b.addr + b.root }

// ConnectStringVia is ConnectString through a proxy in front of the server.
func (b Backend) ConnectStringVia(proxy string) string { return proxy + b.root }

// Root is the chroot of ConnectString.
func (b Backend) Root() string { return b.root }

// Counts asks the server what clients have left there. The server may be shared,
// so tests compare before and after, and do not run in parallel. A real server drops the watches of
// a client some time after it has ended the session. Counts waits for that if there is no session
// at all, as at the beginning of a test.
func (b Backend) Counts(tb testing.TB) Counts {
	tb.Helper()
	// Counting is for the end of a test, too, when its context is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), startTimeout)
	defer cancel()
	for deadline := time.Now().Add(cleanLimit); ; <-time.After(pollInterval) {
		counts, err := countsOf(ctx, b.Admin)
		if err != nil {
			tb.Fatalf("zktest: counts of %s: %v", b.name, err)
		}
		if counts.Sessions > 0 || counts.Watches == 0 || time.Now().After(deadline) {
			return counts
		}
	}
}

// AwaitCounts waits until every count of the server is at most the count in want. It
// fails the test after limit.
func (b Backend) AwaitCounts(tb testing.TB, want Counts, limit time.Duration) {
	tb.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		got := b.Counts(tb)
		if got.Ephemerals <= want.Ephemerals && got.Watches <= want.Watches && got.Sessions <= want.Sessions {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("zktest: %s has %+v left after %v, want at most %+v", b.name, got, limit, want)
		}
		<-tick.C
	}
}

// Version asks the server for its version.
func (b Backend) Version(tb testing.TB) ensemble.Version {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), startTimeout)
	defer cancel()
	answer, err := b.FourLetterWord(ctx, "srvr")
	if err != nil {
		tb.Fatalf("zktest: version of %s: %v", b.name, err)
	}
	version, err := ensemble.VersionIn(answer)
	if err != nil {
		tb.Fatalf("zktest: version of %s: %v", b.name, err)
	}
	return version
}

// keepers has the servers made [zkserver.WithKeeper] by their addresses. A session there cannot be taken over and closed.
var keepers sync.Map

// keeperLacks are the features that a server made [zkserver.WithKeeper] lacks.
var keeperLacks = []ensemble.Feature{
	ensemble.GetEphemerals, ensemble.Containers, ensemble.TTLNodes, ensemble.ResumedSessions, ensemble.CreationNumbers,
}

// Requires reports the test as not applicable, and ends it, if the server is too old to have the features, or is no ZooKeeper
// and lacks them. It is the one place where a test is left out because of the server, and the report names feature and server.
func (b Backend) Requires(tb testing.TB, features ...ensemble.Feature) {
	tb.Helper()
	if b.keeper {
		for _, f := range features {
			if slices.Contains(keeperLacks, f) {
				tb.Skipf("zktest: not applicable to ClickHouse Keeper: it has no %v", f)
			}
		}
		return
	}
	version := b.Version(tb)
	for _, f := range features {
		if !version.Has(f) {
			tb.Skipf("zktest: not applicable to ZooKeeper %v: it has no %v", version, f)
		}
	}
}

// keeperEnv has EachBackend run each test on an embedded server that behaves as ClickHouse Keeper, and on no other.
const keeperEnv = "CURATOR_KEEPER"

// followerEnv has EachBackend run each test on a follower of three embedded servers, and on no other.
const followerEnv = "CURATOR_FOLLOWER"

// EachBackend runs the test on the embedded server and, unless -short is given,
// on real ZooKeeper. The embedded server is new for each test; the real one
// is shared by all tests of the package, whose TestMain must use
// [Main] or [WithSharedServers]. With CURATOR_KEEPER=1 in the environment it runs the
// test on an embedded server made [zkserver.WithKeeper] instead, and with CURATOR_FOLLOWER=1 on a follower of three
// embedded servers.
func EachBackend(t *testing.T, test func(t *testing.T, server Backend)) {
	t.Helper()
	if os.Getenv(keeperEnv) != "" {
		t.Run("keeper", func(t *testing.T) {
			s := NewServer(t, zkserver.WithKeeper())
			b := Embedded(s)
			b.name, b.keeper = "keeper", true
			keepers.Store(b.addr, s)
			t.Cleanup(func() { keepers.Delete(b.addr) })
			test(t, b)
		})
		return
	}
	if os.Getenv(followerEnv) != "" {
		t.Run("follower", func(t *testing.T) {
			b := Embedded(NewEmbeddedEnsemble(t, 3).Followers()[0])
			b.name = "follower"
			test(t, b)
		})
		return
	}
	t.Run("zkserver", func(t *testing.T) { test(t, Embedded(NewServer(t))) })
	if testing.Short() {
		return
	}
	t.Run("zookeeper", func(t *testing.T) { test(t, sharedServer(t)) })
}

var roots atomic.Int64

func newRoot() string { return fmt.Sprintf("/test-%d", roots.Add(1)) }

// Embedded is an embedded server as a backend.
func Embedded(s *zkserver.Server) Backend {
	addr, dial := locate(s)
	return Backend{Admin: s, name: "zkserver", addr: addr, dial: dial, root: newRoot()}
}

// Real is one server of an ensemble as a backend.
func Real(s *ensemble.Server) Backend {
	b := Backend{Admin: s, name: "zookeeper", addr: s.Addr(), root: newRoot()}
	if host := s.Host(); host != nil {
		b.dial = dialerOf(host.Network())
	}
	return b
}

// At is any other server as a backend, at a host:port, such as a server in a container. It must take four-letter
// words there, mntr among them. The name is for messages. Its chroot has a random name, since such a server may
// have znodes of other processes. Znodes that the test leaves below the chroot stay there.
func At(name, addr string) Backend {
	return Backend{Admin: address(addr), name: name, addr: addr, root: newRoot() + "-" + rand.Text()}
}

// address is a server known by its address only.
type address string

func (a address) FourLetterWord(ctx context.Context, word string) (string, error) {
	return ensemble.FourLetterWord(ctx, string(a), word)
}

// shared is the real server that the tests of a package share.
var shared struct {
	sync.Mutex
	managed  bool
	ensemble *ensemble.Ensemble
}

func sharedServer(tb testing.TB) Backend {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.managed {
		tb.Fatal("zktest: EachBackend needs a TestMain with zktest.Main or zktest.WithSharedServers")
	}
	if shared.ensemble == nil {
		ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
		defer cancel()
		e, err := ensemble.Start(ctx, withMaxSessionTimeout())
		if err != nil {
			tb.Fatalf("zktest: start a ZooKeeper server: %v", err)
		}
		shared.ensemble = e
	}
	return Real(shared.ensemble.Server(0))
}

// TestRunner is what *testing.M is to a TestMain.
type TestRunner interface {
	// Run runs the tests and returns the exit code of the process.
	Run() int
}

// WithSharedServers returns a runner that runs m and then closes the servers that
// its tests have shared.
func WithSharedServers(m TestRunner) TestRunner { return sharing{m} }

type sharing struct{ m TestRunner }

func (s sharing) Run() int {
	shared.Lock()
	outer := !shared.managed
	shared.managed = true
	shared.Unlock()
	code := s.m.Run()
	if !outer {
		return code
	}
	shared.Lock()
	defer shared.Unlock()
	shared.managed = false
	if shared.ensemble == nil {
		return code
	}
	if err := shared.ensemble.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "zktest: close the shared ZooKeeper server:", err)
		code = max(code, 1)
	}
	shared.ensemble = nil
	return code
}
