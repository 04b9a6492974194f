// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/recipes/fence"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newObject returns an object of a new store, which calls before ahead of each write.
func newObject(t *testing.T, before func()) object {
	t.Helper()
	kept := new(store)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			before()
		}
		kept.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return object{server.Client(), server.URL + "/report"}
}

func read(t *testing.T, o object) (c content) {
	t.Helper()
	status, _, data, err := o.do(t.Context(), http.MethodGet, nil, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, json.Unmarshal(data, &c))
	return c
}

// TestAStoppedHolderIsRefused: a holder is stopped before its write, and goes on after the
// next holder has written.
func TestAStoppedHolderIsRefused(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	mutex, err := locks.NewInterProcessMutex(client, "/examples/fenced")
	require.NoError(t, err)
	report := newObject(t, func() {})
	lease, err := mutex.Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, report.write(t.Context(), lease.Token(), "begun"))

	zktest.KillSession(t, client) // as when the process is stopped for long
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, server.Addr(), report, "second", time.Nanosecond))
	require.Contains(t, out.String(), `"second" has the lock, token `)
	second := read(t, report)
	require.Equal(t, "second", second.Text)
	require.Greater(t, second.Fence, lease.Token())

	err = report.write(t.Context(), lease.Token(), "first")
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fence.StaleError{Token: lease.Token(), Newest: second.Fence}, *stale)
	require.Equal(t, second, read(t, report))
}

// TestAWriteThatArrivesLateIsRefused: the holder has looked at the object, and its write is
// on the way while the next holder writes the same text. Only the condition can refuse it.
func TestAWriteThatArrivesLateIsRefused(t *testing.T) {
	const older, newer = 4711, 4720 // lease.Token() of two holders, one after the other
	var report object
	between := make(chan func(), 1)
	report = newObject(t, func() {
		select {
		case fn := <-between:
			fn()
		default:
		}
	})
	require.NoError(t, report.write(t.Context(), older, "begun"))
	between <- func() { assert.NoError(t, report.write(t.Context(), newer, "begun")) }

	require.ErrorIs(t, report.write(t.Context(), older, "done"), fence.ErrStale)
	require.Empty(t, between)
	require.Equal(t, content{newer, "begun"}, read(t, report))
}

// TestTheHolderMayWriteAgain: the same token and newer ones are accepted.
func TestTheHolderMayWriteAgain(t *testing.T) {
	report := newObject(t, func() {})
	for _, want := range []content{{3, "a"}, {3, "b"}, {3, "b"}, {7, "b"}} {
		require.NoError(t, report.write(t.Context(), want.Fence, want.Text))
		require.Equal(t, want, read(t, report))
	}
}
