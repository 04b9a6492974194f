// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

const path = "/service/config"

func TestConfigIsFollowedByTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		client, operator := zktest.Client(t, server), zktest.Client(t, server)
		ctx, stop := context.WithCancel(t.Context())
		applied := make(chan Config, 100)
		ended := make(chan error, 1)
		go func() {
			ended <- follow(ctx, client, path, func(c Config) { applied <- c })
		}()
		expect := func(want Config) {
			t.Helper()
			require.Equal(t, want, zktest.Await(t, applied, "a configuration"))
			require.Empty(t, applied)
		}
		expect(defaults) // there is none yet

		_, err := operator.Create(t.Context(), path, []byte(`{"greeting":"hi"}`), framework.CreatingParentsIfNeeded())
		require.NoError(t, err)
		expect(Config{"hi", 1})

		// Bad JSON changes nothing; what follows it counts.
		set(t, operator, `{"greeting":`)
		time.Sleep(time.Minute)
		require.Empty(t, applied)
		set(t, operator, `{"greeting":"hey","workers":3}`)
		expect(Config{"hey", 3})

		// What changes while the connection is lost is applied after it.
		allow := server.Refuse()
		server.Cut(client.Session().ID(), 1)
		set(t, operator, `{"greeting":"back"}`)
		allow()
		expect(Config{"back", 1})
		zktest.KillSession(t, client)
		require.NoError(t, operator.Delete(t.Context(), path))
		expect(defaults)

		stop()
		require.ErrorIs(t, zktest.Await(t, ended, "the end"), context.Canceled)
	})
}

func set(t *testing.T, operator *framework.Framework, data string) {
	t.Helper()
	require.NoError(t, operator.Set(t.Context(), path, []byte(data)))
}
