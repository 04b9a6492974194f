// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
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

// TestTooManyRequestsAndOutagesDiffer: one replica has the only permit, and another one says
// so; when ZooKeeper is away it says that instead.
func TestTooManyRequestsAndOutagesDiffer(t *testing.T) {
	server := zktest.NewServer(t)
	inside, finish := make(chan struct{}), make(chan struct{})
	busy, err := newHandler(zktest.Client(t, server), 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(inside)
		<-finish
	}))
	require.NoError(t, err)
	client := zktest.Client(t, server, framework.WithConnectionTimeout(100*time.Millisecond), framework.WithRetryPolicy(retry.None()))
	other, err := newHandler(client, 1, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	require.NoError(t, err)
	first := make(chan int, 1)
	go func() { first <- get(t, busy, "/render").Code }()
	zktest.Await(t, inside, "the first request")

	require.Equal(t, http.StatusOK, get(t, other, "/ready").Code)
	refused := get(t, other, "/render")
	require.Equal(t, http.StatusTooManyRequests, refused.Code)
	require.Equal(t, "1", refused.Header().Get("Retry-After"))
	require.Contains(t, get(t, other, "/debug/locks").Body.String(), "/examples/render</a>")
	close(finish)
	require.Equal(t, http.StatusOK, zktest.Await(t, first, "the end of the first request"))
	require.Equal(t, http.StatusTeapot, get(t, other, "/render").Code)

	require.NoError(t, server.Stop())
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	require.Equal(t, http.StatusServiceUnavailable, get(t, other, "/ready").Code)
	require.Equal(t, http.StatusServiceUnavailable, get(t, other, "/render").Code)
}

// pipes is a listener for connections in memory, which let a fake clock advance.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestRequestsEndBeforeTheServer: the client is closed after serve, and requests that have begun need it.
func TestRequestsEndBeforeTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := &pipes{make(chan net.Conn, 1), make(chan struct{})}
		near, far := net.Pipe()
		listener.conns <- far
		inside, finish := make(chan struct{}), make(chan struct{})
		handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(inside)
			<-finish
		})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended, answered := make(chan error, 1), make(chan string, 1)
		go func() { ended <- serve(ctx, listener, handler) }()
		go func() {
			_, _ = near.Write([]byte("GET / HTTP/1.0\r\n\r\n")) // an error is an answer that does not come
			answer, _ := io.ReadAll(near)
			answered <- string(answer)
		}()
		<-inside
		stop()
		<-listener.closed
		synctest.Wait()
		require.Empty(t, ended, "a request is under way")
		close(finish)
		require.Contains(t, <-answered, "200 OK")
		require.NoError(t, <-ended)
	})
}

// TestAnAddressThatIsTaken is an error.
func TestAnAddressThatIsTaken(t *testing.T) {
	server := zktest.NewServer(t)
	require.ErrorContains(t, run(server.Addr(), server.Addr(), 1), "address already in use")
}
