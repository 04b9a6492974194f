// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

const credential = "alice:wonderland"

func creatorOnly() []framework.ACL {
	return []framework.ACL{{Perms: zk.PermAll, Scheme: "auth"}}
}

// turncoat is a connection on which, once the flag is set, the client asks for an
// authentication scheme that no server knows.
type turncoat struct {
	net.Conn
	turned *atomic.Bool
}

func (c turncoat) Write(p []byte) (int, error) {
	if c.turned.Load() {
		p = bytes.Replace(p, []byte("digest"), []byte("nogest"), 1)
	}
	return c.Conn.Write(p)
}

// TestAuthRefusedCredentialEndsWatches: what waits for an event learns that none will come.
func TestAuthRefusedCredentialEndsWatches(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		var turned atomic.Bool
		f := n.client(t, framework.WithAuth("digest", []byte(credential)),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := n.dial(ctx, network, address)
				return turncoat{conn, &turned}, err
			}))
		watch := must.Get(f.AddWatch(t.Context(), "/config", framework.WatchPersistent))(t)
		loop := followIn(t, func(ctx context.Context) iter.Seq2[framework.Node, error] { return f.Follow(ctx, "/config") })
		requireAbsent(t, loop)

		turned.Store(true)
		n.cut()
		zktest.Await(t, watch.Done(), "the end of the watch")
		require.ErrorIs(t, watch.Err(), framework.ErrAuthFailed)
		require.NoError(t, watch.Flush(t.Context()))
		require.ErrorIs(t, loop.next().err, framework.ErrAuthFailed)
		zktest.Await(t, loop.ended, "the end of the loop")
		require.Error(t, f.Close(), "nobody can be told")
	})
}

// TestAuthCredentialIsCopied by the option, so that a program may overwrite its own copy.
func TestAuthCredentialIsCopied(t *testing.T) {
	secret := []byte(credential)
	option := framework.WithAuth("digest", secret)
	clear(secret)
	f := zktest.Client(t, zktest.NewServer(t), option)
	mustCreate(t, f, "/private", framework.WithACL(creatorOnly()...))
	require.Equal(t, framework.DigestACL(zk.PermAll, "alice", "wonderland"), must.Get(f.GetACL(t.Context(), "/private"))(t))
}

// TestSetAuthAddsAndRotates: what only its creator may read becomes readable on the present connection, and stays so
// on later ones. A credential that is replaced no longer counts on the next connection.
func TestSetAuthAddsAndRotates(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.ResumedSessions)
		owner := zktest.Client(t, server, framework.WithAuth("digest", []byte(credential)))
		ctx := t.Context()
		must.Get(owner.Create(ctx, "/alice", []byte("data"), framework.CreatingParentsIfNeeded(), framework.WithACL(creatorOnly()...)))(t)
		f, proxy := zktest.ClientViaProxy(t, server)
		states, session := recordStates(f), f.Session()
		may := func() error { _, err := f.Get(ctx, "/alice"); return err }
		require.ErrorIs(t, may(), framework.ErrNoAuth)

		require.NoError(t, f.SetAuth(ctx, "digest", []byte("bob:x"), []byte(credential)))
		require.NoError(t, may())
		states.none(t)
		must.Get(f.Create(ctx, "/both", nil, framework.WithACL(creatorOnly()...)))(t)
		require.Len(t, must.Get(f.GetACL(ctx, "/both"))(t), 2, "both identities")
		proxy.Cut()
		states.expect(t, framework.Suspended, framework.Reconnected)
		require.NoError(t, may())

		require.NoError(t, f.SetAuth(ctx, "digest", []byte("bob:y")))
		proxy.Cut()
		states.expect(t, framework.Suspended, framework.Reconnected)
		require.ErrorIs(t, may(), framework.ErrNoAuth)
		require.NoError(t, f.SetAuth(ctx, "digest"))
		require.Same(t, session, f.Session())
	})
}

// TestSetAuthUnderLoad: replies to requests that were sent before may come before the reply to the credential.
func TestSetAuthUnderLoad(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		f := zktest.Client(t, server)
		states := recordStates(f)
		ended, stop := context.WithCancel(t.Context())
		var load sync.WaitGroup
		for range 8 {
			load.Go(func() {
				for ended.Err() == nil {
					if _, err := f.Exists(t.Context(), "/"); err != nil {
						t.Errorf("a read: %v", err)
						return
					}
				}
			})
		}
		for i := range 50 {
			require.NoError(t, f.SetAuth(t.Context(), "digest", fmt.Append(nil, "alice:", i)))
		}
		stop()
		load.Wait()
		states.none(t)
	})
}

func TestSetAuthThatIsRefusedEndsTheClient(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		f := zktest.Client(t, server, framework.WithSessionTimeout(2*time.Second))
		require.ErrorIs(t, f.SetAuth(zktest.Context(t), "nosuchscheme", []byte("x")), framework.ErrAuthFailed)
	})
}

func TestSetAuthBadInput(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t))
	require.ErrorIs(t, f.SetAuth(t.Context(), "", []byte("x")), framework.ErrInvalidOption)
	require.ErrorIs(t, f.SetAuth(t.Context(), "digest", make([]byte, 100<<20)), framework.ErrInvalidOption)
	require.ErrorIs(t, f.SetAuth(t.Context(), strings.Repeat("x", 2<<20), nil), framework.ErrInvalidOption)
	require.ErrorContains(t, f.SetAuth(nil, "digest"), "context nil") //nolint:staticcheck // what a mistake does
}
