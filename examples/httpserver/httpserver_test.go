// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, handler http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	r.Host = "localhost"
	handler.ServeHTTP(w, r)
	return w
}

// TestHTTPServerTellsTooManyRequestsFromOutages: one replica has the only permit, and another one says
// so; when ZooKeeper is away it says that instead.
func TestHTTPServerTellsTooManyRequestsFromOutages(t *testing.T) {
	server := zktest.NewServer(t)
	inside, finish := make(chan struct{}), make(chan struct{})
	busy, err := newHandler(zktest.Client(t, server), 1, func(http.ResponseWriter, *http.Request) {
		close(inside)
		<-finish
	})
	require.NoError(t, err)
	client := zktest.Client(t, server, framework.WithConnectionTimeout(100*time.Millisecond), framework.WithRetryPolicy(retry.None()))
	other, err := newHandler(client, 1, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	require.NoError(t, err)
	first := make(chan int, 1)
	go func() { first <- get(t, busy, "/render").Code }()
	zktest.Await(t, inside, "the first request")

	require.Equal(t, http.StatusOK, get(t, other, "/ready").Code)
	require.Equal(t, http.StatusTooManyRequests, get(t, other, "/render").Code)
	close(finish)
	require.Equal(t, http.StatusOK, zktest.Await(t, first, "the end of the first request"))
	require.Equal(t, http.StatusTeapot, get(t, other, "/render").Code)

	require.NoError(t, server.Stop())
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	require.Equal(t, http.StatusServiceUnavailable, get(t, other, "/ready").Code)
	require.Equal(t, http.StatusServiceUnavailable, get(t, other, "/render").Code)
}
