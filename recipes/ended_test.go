// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// admitting returns a server that knows one user, and a function that changes the user's password.
func admitting(t *testing.T) (server *zkserver.Server, change func()) {
	t.Helper()
	server = zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithRequireClientAuthScheme("sasl"),
		zkserver.WithSASLUsers(map[string]string{"app": "old"}))
	return server, func() {
		require.NoError(t, server.SetSASLUsers(map[string]string{"app": "new"}))
		server.Cut(0, 1)
	}
}

var asApp = framework.WithSASL(framework.DigestMD5("app", "old"))

// Every recipe that waits for its first server ends when its client does, with the client's reason.
func TestEndedClientEndsWhatHasWaitedForAServer(t *testing.T) {
	for _, n := range newcomers {
		for _, reason := range []error{framework.ErrClosed, framework.ErrAuthFailed} {
			t.Run(n.of+"/"+reason.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server, change := admitting(t)
					change()
					client, reach := unreachable(t, server, asApp)
					works := n.begin(t, client)
					time.Sleep(5 * time.Minute)

					if reason == framework.ErrClosed { //nolint:errorlint // of the table
						require.NoError(t, client.Close())
					}
					reach()
					zktest.Await(t, client.Done(), "the end of the client")

					ended := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
					defer cancel()
					require.ErrorIs(t, works(ctx), reason)
					require.Less(t, time.Since(ended), time.Second)
				})
			})
		}
	}
}

// What stands when servers refuse the client goes with its session, so there is nothing left to do.
func TestEndedClientLeavesNothingToClose(t *testing.T) {
	for _, k := range keepers {
		t.Run(k.of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, change := admitting(t)
				client := zktest.Client(t, server, asApp, framework.WithErrorPolicy(framework.SessionErrorPolicy))
				end := k.keep(t, client)
				change()
				zktest.Await(t, client.Done(), "the end of the client")
				time.Sleep(time.Second)

				began := time.Now()
				err := end()

				require.Less(t, time.Since(began), time.Second)
				if k.of == "PersistentNode, persistent" {
					require.ErrorIs(t, err, framework.ErrAuthFailed, "the znode stays")
					return
				}
				require.NoError(t, err)
			})
		})
	}
}

// What follows the servers in the background says that it has ended, and why.
func TestEndedClientIsReportedByErr(t *testing.T) {
	begin := func(err error, start func() error) error {
		if err != nil {
			return err
		}
		return start()
	}
	for name, open := range map[string]func(ctx context.Context, c *framework.Framework) (err func() error, failed error){
		"SharedValue": func(ctx context.Context, c *framework.Framework) (func() error, error) {
			v, err := shared.NewSharedValue(c, "/value", nil)
			return v.Err, begin(err, func() error { return v.Start(ctx) })
		},
		"SharedCount": func(ctx context.Context, c *framework.Framework) (func() error, error) {
			n, err := shared.NewSharedCount(c, "/count", 1)
			return n.Err, begin(err, func() error { return n.Start(ctx) })
		},
		"PersistentNode": func(_ context.Context, c *framework.Framework) (func() error, error) {
			n, err := nodes.NewPersistentNode(c, "/node", framework.Ephemeral, nil)
			return n.Err, begin(err, n.Start)
		},
		"PersistentNode that may not be created": func(_ context.Context, c *framework.Framework) (func() error, error) {
			n, err := nodes.NewPersistentNode(c, "/closed/node", framework.Ephemeral, nil)
			return n.Err, begin(err, n.Start)
		},
		"PersistentTtlNode": func(_ context.Context, c *framework.Framework) (func() error, error) {
			n, err := nodes.NewPersistentTtlNode(c, "/ttl", time.Minute, nil)
			return n.Err, begin(err, n.Start)
		},
		"GroupMember": func(_ context.Context, c *framework.Framework) (func() error, error) {
			m, err := nodes.NewGroupMember(c, "/group", "a", nil)
			return m.Err, begin(err, m.Start)
		},
		"ServiceDiscovery": func(ctx context.Context, c *framework.Framework) (func() error, error) {
			d, err := discovery.NewServiceDiscovery[string](c, "/services", nil)
			i := discovery.NewInstance[string]("orders", "localhost", 80)
			return func() error { _, err := d.Registered(i); return err }, begin(err, func() error { return d.Register(ctx, i) })
		},
		"LeaderLatch": func(ctx context.Context, c *framework.Framework) (func() error, error) {
			l, err := leader.NewLeaderLatch(c, "/latch")
			return func() error { _, err := l.Await(ctx); return err }, begin(err, l.Start)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, change := admitting(t)
				client := zktest.Client(t, server, asApp)
				must.Get(client.Create(t.Context(), "/closed", nil, framework.WithACL(framework.ReadACL()...)))(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				why := must.Get(open(ctx, client))(t)
				time.Sleep(time.Minute)

				change()

				zktest.Await(t, client.Done(), "the end of the client")
				synctest.Wait()
				require.ErrorIs(t, why(), framework.ErrAuthFailed)
			})
		})
	}
}

// A candidate that stands again and again does not live on after its client.
func TestEndedClientEndsASelectorThatRequeues(t *testing.T) {
	for name, lead := range map[string]func(context.Context) error{
		"that returns nothing":   func(ctx context.Context) error { <-ctx.Done(); return nil },
		"that returns its error": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"that returns its cause": func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		"between two of them":    func(context.Context) error { return net.ErrClosed },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, change := admitting(t)
				client := zktest.Client(t, server, asApp)
				s := must.Get(leader.NewLeaderSelector(client, "/selector", leader.WithAutoRequeue()))(t)
				ran := make(chan error, 1)
				go func() { ran <- s.Run(t.Context(), lead) }()
				time.Sleep(time.Minute)

				change()

				zktest.Await(t, client.Done(), "the end of the client")
				ended := time.Now()
				require.ErrorIs(t, zktest.Await(t, ran, "the end of Run"), framework.ErrAuthFailed)
				require.Less(t, time.Since(ended), time.Second)
			})
		})
	}
}

// The error of another client, which a function of the caller returns, ends no loop of this one.
func TestEndedClientIsNotAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener()))
		s := must.Get(leader.NewLeaderSelector(client, "/selector", leader.WithAutoRequeue()))(t)
		others := []error{framework.ErrClosed, framework.ErrAuthFailed, leader.ErrStop}

		require.NoError(t, s.Run(t.Context(), func(context.Context) error {
			err := others[0]
			others = others[1:]
			return err
		}))

		require.Empty(t, others)
	})
}
