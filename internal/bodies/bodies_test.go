// SPDX-License-Identifier: Apache-2.0

package bodies_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/internal/bodies"
	"github.com/gocurator/curator/internal/testkit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

// connect serves a handler for one connection.
func connect(t *testing.T, handler http.Handler) net.Conn {
	t.Helper()
	server, listener := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}, make(pipes)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, theirs := net.Pipe()
	listener <- theirs
	t.Cleanup(func() {
		assert.NoError(t, conn.Close())
		assert.NoError(t, server.Close())
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return conn
}

func TestWithinDropsWhoSendsNoBody(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"refused": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"refused for good": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusConflict)
		},
		"read": func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			assert.ErrorContains(t, err, "timeout")
			w.WriteHeader(http.StatusBadRequest)
		},
	} {
		for announced, head := range map[string]string{"length": "Content-Length: 1000\r\n\r\n{", "chunks": "Transfer-Encoding: chunked\r\n\r\n3\r\n{"} {
			t.Run(name+"/"+announced, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					conn := connect(t, bodies.Within(3*time.Second, handler))
					began := time.Now()
					go io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: localhost\r\n"+head) //nolint:errcheck // the server may be gone
					require.Regexp(t, "^HTTP/1.1 4", string(must.Get(io.ReadAll(conn))(t)))
					require.Less(t, time.Since(began), 4*time.Second)
				})
			})
		}
	}
}

// The deadline of a body that has come does not end the context of its request, or of the next one.
func TestWithinEndsWithTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connect(t, bodies.Within(time.Second, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.Equal(t, "hello", string(body))
			select {
			case <-time.After(time.Minute):
			case <-r.Context().Done():
				t.Error("the context has ended")
			}
			w.WriteHeader(http.StatusNoContent)
		})))
		for range 2 {
			go io.WriteString(conn, "PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello") //nolint:errcheck // the answer shows it
			answer := make([]byte, 1000)
			n := must.Get(conn.Read(answer))(t)
			require.True(t, strings.HasPrefix(string(answer[:n]), "HTTP/1.1 204"), string(answer[:n]))
		}
	})
}
