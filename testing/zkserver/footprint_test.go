// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// heap returns the bytes that are in use after a garbage collection.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestFootprintAnnouncedFramesTakeNoMemory opens many connections that announce a large frame and send next to nothing of it.
func TestFootprintAnnouncedFramesTakeNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const connections = 200
		srv := start(t, zkserver.WithoutListener())
		before := heap()
		for i := range connections {
			c := dialed(t, srv, connection{})
			must.Get(c.nc.Write(append(body{}.int(0xfffff).b, make([]byte, 50*i)...)))(t)
		}
		synctest.Wait() // the server has read all that came
		require.Less(t, heap()-before, connections*150_000, "200 MB were announced")
		require.Less(t, srv.Held(), connections*(zkserver.ConnFootprint+20_000))
	})
}

// TestFootprintLargeRequestsLeaveNoMemory sends large frames whole: the next, small ones must not keep their memory.
func TestFootprintLargeRequestsLeaveNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const connections = 40
		srv := start(t, zkserver.WithoutListener())
		before := heap()
		for range connections {
			c := dialed(t, srv, connection{})
			require.EqualValues(t, -101, c.code(t, 5, body{}.str("/none").str(strings.Repeat("x", 1_000_000)).int(-1)))
		}
		synctest.Wait()
		require.Less(t, heap()-before, connections*200_000)
		require.Equal(t, connections*zkserver.ConnFootprint, srv.Held())
	})
}

// TestFootprintMemoryOfAllConnectionsIsBounded has clients that make the server keep something for them, in every way there is.
// Together they go over the bound: then those with the most are cut, and others are served as before.
func TestFootprintMemoryOfAllConnectionsIsBounded(t *testing.T) {
	const (
		limit   = 4 << 20
		clients = 20
	)
	paths := make([]string, 5000)
	for i := range paths {
		paths[i] = fmt.Sprintf("/%d", i)
	}
	for name, burden := range map[string]func(c *rawClient) error{
		"half frames": func(c *rawClient) error {
			_, err := c.nc.Write(append(body{}.int(1_000_000).b, make([]byte, 900_000)...))
			return err
		},
		"unread answers": func(c *rawClient) error {
			var err error
			for range 3 {
				_, err = c.send(4, body{}.str("/big").flag(false))
			}
			return err
		},
		"watches": func(c *rawClient) error {
			_, err := c.send(101, body{}.long(1<<60).strs().strs(paths...).strs())
			return err
		},
		"persistent watches": func(c *rawClient) error {
			_, err := c.send(105, body{}.long(1<<60).strs().strs().strs().strs(paths...).strs())
			return err
		},
		"identities": func(c *rawClient) error {
			var err error
			for i := range 1000 {
				_, err = c.send(100, body{}.int(0).str("digest").str(fmt.Sprintf("user%d:secret", i)))
			}
			return err
		},
		"events held back": func(c *rawClient) error {
			_, err := c.send(101, body{}.long(0).strs(paths...).strs().strs())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				srv := start(t, zkserver.WithoutListener(), zkserver.WithMaxMemory(limit),
					zkserver.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
				bystander := dialed(t, srv, connection{})
				bystander.must(t, 1, createBody("/big", strings.Repeat("x", 1_000_000), 0))
				thaw := func() {}
				before := heap()
				for i := range clients {
					c := dialed(t, srv, connection{})
					if name == "events held back" {
						thaw = srv.FreezeReads(c.session)
					}
					if err := burden(c); err != nil {
						require.True(t, ended(err), "client %d: %v", i, err)
					}
					synctest.Wait()
					require.LessOrEqual(t, srv.Held(), limit)
				}
				require.Less(t, heap()-before, 6*limit)
				require.Contains(t, log.String(), `msg="connection cut: connections hold too much memory"`)
				cut := 0
				for _, e := range srv.Log() {
					if e.Kind == zkserver.Ended && e.Detail == "connections hold too much memory" {
						cut++
						require.NotEqual(t, bystander.session, e.SessionID)
					}
				}
				require.Positive(t, cut)
				require.Less(t, cut, clients, "those below the bound stay")
				bystander.must(t, 11, body{})

				thaw()
				srv.Cut(0, 1)
				time.Sleep(5 * time.Second) // clients that have not hung up yet are not waited for any longer
				require.Zero(t, srv.Held(), "all that was counted is given back")
			})
		})
	}
}

// TestFootprintMemoryOfSessionsIsBounded opens sessions and leaves them: each lasts until it expires.
func TestFootprintMemoryOfSessionsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 1 << 20 / 2 / 800
		srv := start(t, zkserver.WithoutListener(), zkserver.WithMaxMemory(1<<20))
		open := func(want connection) (*rawClient, error) {
			nc := must.Get(srv.Dial(t.Context(), "", ""))(t)
			want.timeoutMs = 10_000
			c, err := handshake(nc, want)
			require.NoError(t, nc.Close())
			synctest.Wait() // the server has noticed
			return c, err
		}
		first := must.Get(open(connection{}))(t)
		for range most - 1 {
			must.Get(open(connection{}))(t)
		}
		_, err := open(connection{})
		require.True(t, ended(err), "got %v", err)
		again := must.Get(open(connection{session: first.session, password: first.password}))(t)
		require.Equal(t, first.session, again.session, "sessions that there are stay")
		time.Sleep(time.Minute)
		_, err = open(connection{})
		require.NoError(t, err, "they have expired")
	})
}
