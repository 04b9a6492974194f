// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// serving starts serve with a lock that is held, and returns the address.
func serving(t *testing.T, args ...string) (r *running, addr string) {
	t.Helper()
	server := zktest.NewServer(t)
	mutex := must.Get(locks.NewInterProcessMutex(zktest.Client(t, server), "/locks/report", locks.WithLabel("nightly")))(t)
	holdLock(t, mutex)
	r = begin(t, server.Addr(), append([]string{"serve", "-listen", "127.0.0.1:0"}, args...)...)
	r.out.await(t, "listening on http://")
	return r, strings.TrimSpace(strings.TrimPrefix(r.out.text.String(), "listening on http://"))
}

// ask sends one request and returns status and body of the answer.
func ask(t *testing.T, addr, host, target string, body io.Reader) (status int, text string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(zktest.Context(t), http.MethodGet, "http://"+addr+target, body))(t)
	request.Close = true
	if host != "" {
		request.Host = host
	}
	answer := must.Get(http.DefaultClient.Do(request))(t)
	defer answer.Body.Close()
	read := must.Get(io.ReadAll(answer.Body))(t)
	return answer.StatusCode, string(read)
}

// TestServe: the page is there until the program is stopped, also for a viewer that follows changes.
func TestServe(t *testing.T) {
	r, addr := serving(t)
	status, body := ask(t, addr, "", "/", http.NoBody)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "nightly (")
	conn := must.Get(new(net.Dialer).DialContext(zktest.Context(t), "tcp", addr))(t)
	defer conn.Close()
	must.Get(fmt.Fprintf(conn, "GET /?events HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
	follower := bufio.NewReader(conn)
	require.Contains(t, must.Get(follower.ReadString('\n'))(t), "200 OK")
	r.end(t)
	_, err := io.Copy(io.Discard, follower)
	if err != nil { // the connection is cut
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	}
	_, err = new(net.Dialer).DialContext(zktest.Context(t), "tcp", addr)
	require.Error(t, err, "its port is free again")
}

// TestServeAnswersItsOwnNames only: a web site may have its name point at this machine.
func TestServeAnswersItsOwnNames(t *testing.T) {
	r, addr := serving(t, "-host", "locks.example")
	for host, status := range map[string]int{"": 200, "localhost": 200, "locks.example:80": 200, "attacker.example": 421, "locks.example.attacker.example": 421} {
		got, body := ask(t, addr, host, "/?page=1", http.NoBody)
		require.Equal(t, status, got, host)
		require.Equal(t, status == 200, strings.Contains(body, "nightly"), host)
	}
	r.end(t)
}

// TestServeLimitsRequests in size: headers, queries and bodies.
func TestServeLimitsRequests(t *testing.T) {
	r, addr := serving(t)
	status, _ := ask(t, addr, "", "/", strings.NewReader("a body"))
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	status, _ = ask(t, addr, "", "/?q="+strings.Repeat("x", 10_000), http.NoBody)
	require.Equal(t, http.StatusRequestURITooLong, status)
	status, _ = ask(t, addr, "", "/?q="+strings.Repeat("x", 40_000), http.NoBody)
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, status)
	r.end(t)
}

// pipes is a listener in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// TestServeLimitsTime: a client that does not finish its request, or sends none, is let go.
func TestServeLimitsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newPageServer(http.NotFoundHandler(), maxConns)
		listener := make(pipes)
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		for _, test := range []struct {
			text  string
			after time.Duration
		}{
			{"GET / HTTP/1.1\r\nHost: local", 10 * time.Second},
			{"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", time.Minute},
			{"PUT /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{", time.Second},
		} {
			conn, theirs := net.Pipe()
			listener <- theirs
			began := time.Now()
			go func() {
				_, err := io.WriteString(conn, test.text)
				assert.NoError(t, err)
			}()
			must.Get(io.Copy(io.Discard, conn))(t)
			require.InDelta(t, test.after, time.Since(began), float64(2*time.Second), test.text)
			require.NoError(t, conn.Close())
		}
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}

// TestServeLimitsConnections: one more gets the seat of the one that has been without a request for longest. While all have
// requests it waits.
func TestServeLimitsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		server := newPageServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-release
			w.WriteHeader(http.StatusNoContent)
		}), 2)
		waiting := make(pipes)
		served := make(chan error, 1)
		go func() { served <- server.Serve(waiting) }()
		connect := func() net.Conn {
			conn, theirs := net.Pipe()
			waiting <- theirs
			synctest.Wait()
			return conn
		}
		request := func(conn net.Conn) {
			must.Get(io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"))(t)
			synctest.Wait()
		}
		began := time.Now()
		first, second := connect(), connect()
		third := connect()
		_, err := first.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "it was silent for longest")
		request(third)
		fourth := connect()
		_, err = second.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		request(fourth)
		fifth := connect()
		_, sixth := net.Pipe()
		select {
		case waiting <- sixth:
			t.Error("the fifth has no seat, and another one is accepted")
		default:
		}
		close(release)
		for _, conn := range []net.Conn{third, fourth, fifth} {
			if conn == fifth {
				request(conn)
			}
			require.Contains(t, string(must.Get(io.ReadAll(conn))(t)), "204 No Content")
		}
		require.Zero(t, time.Since(began), "no one waits for a time limit")
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
}
