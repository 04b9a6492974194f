// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/recipes/fence"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unaware is a lease whose holder was stopped, and does not know that it is over.
type unaware struct{ *locks.Lease }

func (unaware) Err() error { return nil }

// TestFencedStoreRefusesAStoppedHolder: a holder is stopped before its write, and goes on after the
// next holder has written.
func TestFencedStoreRefusesAStoppedHolder(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	mutex, err := locks.NewInterProcessMutex(client, "/examples/fenced")
	require.NoError(t, err)
	var stored strings.Builder
	store := httptest.NewServer(newStore(&stored))
	t.Cleanup(store.Close)
	lease, err := mutex.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, put(t.Context(), lease, store.URL, "first"))

	zktest.KillSession(t, client) // as when the process is stopped for long
	require.NoError(t, run(t.Context(), server.Addr(), store.URL, "second", time.Nanosecond))

	require.ErrorIs(t, put(t.Context(), unaware{lease}, store.URL, "late"), fence.ErrStale)
	require.Error(t, put(t.Context(), lease, store.URL, "late"), "a holder that knows sends nothing")
	require.Regexp(t, `^token \d+ stores "/first"\ntoken \d+ stores "/second"\n$`, stored.String())
}
