// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// silent is a provider whose OnChange returns no registration, or panics.
type silent struct {
	framework.FixedEnsembleProvider
	asked  chan struct{}
	panics bool
}

func (p *silent) OnChange(func()) *listen.Registration {
	defer close(p.asked)
	if p.panics {
		panic("no idea")
	}
	return nil
}

// TestUserCodeEnsembleProviderThatReportsNothing costs the reports: the client works, and can be closed.
func TestUserCodeEnsembleProviderThatReportsNothing(t *testing.T) {
	for _, panics := range []bool{false, true} {
		server := zktest.NewServer(t)
		provider := &silent{framework.FixedEnsembleProvider(server.Addr()), make(chan struct{}), panics}
		f, err := framework.Connect(t.Context(), "", framework.WithEnsembleProvider(provider), framework.WithLogger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		zktest.Await(t, provider.asked, "the client to ask for reports")
		require.NoError(t, f.Sync(t.Context(), "/"))
		require.NoError(t, f.Close())
	}
}

// stuck is a provider that does not return once it is told so.
type stuck struct {
	framework.FixedEnsembleProvider
	onChange bool // it is OnChange that does not return
	asks     atomic.Bool
	entered  chan struct{}
	release  chan struct{}
	late     *listen.Registration // what OnChange has returned after that
}

func (p *stuck) block() {
	p.entered <- struct{}{}
	<-p.release
}

func (p *stuck) ConnectionString() string {
	if p.asks.Load() {
		p.block()
	}
	return string(p.FixedEnsembleProvider)
}

func (p *stuck) OnChange(fn func()) *listen.Registration {
	if p.onChange {
		p.block()
		p.late = listen.New[int]().Add(func(int) { fn() })
		return p.late
	}
	p.asks.Store(true)
	fn()
	return nil
}

// TestUserCodeEnsembleProviderThatBlocks does not hold up Close.
func TestUserCodeEnsembleProviderThatBlocks(t *testing.T) {
	for _, onChange := range []bool{false, true} {
		inMemory(t, func(t *testing.T, n *memnet) {
			provider := &stuck{
				FixedEnsembleProvider: "a:1", onChange: onChange, entered: make(chan struct{}, 9), release: make(chan struct{}),
			}
			f := must.Get(framework.New("", framework.WithEnsembleProvider(provider), framework.WithDialer(n.dial)))(t)
			require.NoError(t, f.Start())
			<-provider.entered
			closed := make(chan error, 1)
			go func() { closed <- f.Close() }()
			select {
			case err := <-closed:
				require.NoError(t, err)
			case <-time.After(3 * time.Second):
				t.Error("Close waits for the provider")
			}
			close(provider.release)
			synctest.Wait()
			if onChange {
				select {
				case <-provider.late.Done():
				default:
					t.Error("the client has left its function with the provider")
				}
			}
		})
	}
}

// TestUserCodeWatchWhoseRemovalIsThrottled is removed when the server has less to do, unless it
// is wanted again by then.
func TestUserCodeWatchWhoseRemovalIsThrottled(t *testing.T) {
	for _, again := range []bool{false, true} {
		inMemory(t, func(t *testing.T, n *memnet) {
			f := n.client(t)
			mustCreate(t, f, "/a")
			watched := func() (w *framework.Watch) {
				require.Empty(t, must.Get(f.Get(t.Context(), "/a", framework.Watched(&w)))(t))
				return w
			}
			throttles := 3
			n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op != zkserver.OpRemoveWatches || throttles == 0 {
					return zkserver.Pass
				}
				throttles--
				return zkserver.FailWith(throttled)
			})
			watched().Cancel()
			if again {
				w := watched()
				time.Sleep(time.Minute)
				require.Equal(t, 1, n.server.Stats().Watches, "it is wanted")
				w.Cancel()
			}
			time.Sleep(time.Second)
			require.Zero(t, n.server.Stats().Watches)
			require.Zero(t, throttles)
		})
	}
}

// compressing is a provider that calls the function for its path.
type compressing map[string]func()

func (c compressing) Compress(path string, data []byte) ([]byte, error) {
	if fn := c[path]; fn != nil {
		fn()
	}
	return data, nil
}

func (c compressing) Decompress(_ string, compressed []byte) ([]byte, error) { return compressed, nil }

// TestUserCodeInABulkThatPanics: the caller can recover the panic, and no operation is lost.
func TestUserCodeInABulkThatPanics(t *testing.T) {
	server := zktest.NewServer(t)
	provider := compressing{"/exits": runtime.Goexit}
	f := zktest.Client(t, server, framework.WithCompressionProvider(provider), framework.WithLogger(slog.New(slog.DiscardHandler)))
	bulk := func(paths ...string) ([]framework.OpResult, error) {
		var ops []framework.Op
		for _, path := range paths {
			ops = append(ops, framework.CreateOp(path, nil, framework.Compressed()))
		}
		return f.Bulk(t.Context(), ops)
	}
	results, err := bulk("/exits", "/a")
	require.ErrorContains(t, err, "1 of 2 have failed, the first: framework: create /exits: ")
	require.ErrorContains(t, results[0].Err, "runtime.Goexit was called")
	require.True(t, framework.OutcomeUnknown(results[0].Err))
	require.Equal(t, "/a", results[1].Path)
	require.NoError(t, results[1].Err)

	provider["/panics"] = func() { panic("the user's own fault") }
	require.PanicsWithValue(t, "the user's own fault", func() { _, _ = bulk("/panics", "/b") })
	require.NotNil(t, must.Get(f.Exists(t.Context(), "/b"))(t), "it was made before Bulk panicked")
}
