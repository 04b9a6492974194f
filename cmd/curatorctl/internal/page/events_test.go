// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/page"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

const (
	comment = ":\n\n"
	changed = "data: changed\n\n"
	alive   = "event: alive\ndata:\n\n"
)

// viewer receives a stream of events.
type viewer struct {
	header http.Header
	chunks chan string
	ended  chan struct{}
}

func (v *viewer) Header() http.Header { return v.header }
func (v *viewer) WriteHeader(int)     {}
func (v *viewer) Flush()              {}
func (v *viewer) Write(text []byte) (int, error) {
	v.chunks <- string(text)
	return len(text), nil
}

// view opens a stream, which ends with the context.
func view(ctx context.Context, handler http.Handler, target string) *viewer {
	v := &viewer{header: make(http.Header), chunks: make(chan string, 20_000), ended: make(chan struct{})}
	go func() {
		defer close(v.ended)
		handler.ServeHTTP(v, request(ctx, http.MethodGet, target))
	}()
	return v
}

// next returns the next event that is no sign of life.
func (v *viewer) next() string {
	for text := range v.chunks {
		if text != alive {
			return text
		}
	}
	return ""
}

// news counts the changes that have been told, and takes everything out of the stream.
func (v *viewer) news() (changes int) {
	for {
		select {
		case text := <-v.chunks:
			if text == changed {
				changes++
			}
		default:
			return changes
		}
	}
}

// TestEventsViewerIsToldOfChanges, and without any the servers are asked for nothing.
func TestEventsViewerIsToldOfChanges(t *testing.T) {
	for _, target := range []string{"/?events", "/?events&lock=/locks/report"} {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener())
			client, other := zktest.Client(t, server), zktest.Client(t, server)
			handler := page.Handler(client, "/locks")
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			v := view(ctx, handler, target)
			require.Equal(t, comment, <-v.chunks)
			require.Equal(t, "text/event-stream", v.header.Get("Content-Type"))
			require.Equal(t, changed, v.next(), "the page may be older than the stream")

			var requests atomic.Int64
			remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op != zkserver.OpPing && r.Op != zkserver.OpExists { // signs of life
					requests.Add(1)
				}
				return zkserver.Pass
			})
			time.Sleep(time.Hour)
			synctest.Wait()
			remove()
			require.Zero(t, requests.Load())
			require.Zero(t, v.news())

			mutex := must.Get(locks.NewInterProcessMutex(other, "/locks/report", locks.WithLabel("nightly")))(t)
			get(t, handler, "/") // which is out of date from now on
			lease := must.Get(mutex.Acquire(t.Context()))(t)
			require.Equal(t, changed, v.next())
			require.Contains(t, get(t, handler, "/").Body.String(), "nightly (", "the page that is loaded now has the change")
			time.Sleep(12 * time.Second) // with the first figures of contention
			synctest.Wait()
			v.news()
			for range 100 { // in no time
				require.NoError(t, other.Set(t.Context(), lease.Path(), []byte("new")))
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.LessOrEqual(t, v.news(), 2, "many changes are one event, or two")

			require.NoError(t, lease.Release(t.Context()))
			leave()
			<-v.ended
		})
	}
}

// TestEventsViewerIsToldOfAnInterruption, at which a viewer that comes is refused.
func TestEventsViewerIsToldOfAnInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		handler := page.Handler(client, "/")
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		v := view(ctx, handler, "/?events")
		require.Equal(t, comment, <-v.chunks)
		require.Equal(t, changed, v.next())
		require.NoError(t, server.Stop())
		require.Equal(t, changed, v.next())
		require.Equal(t, http.StatusServiceUnavailable, get(t, handler, "/?events").Code)
		leave()
		<-v.ended
	})
}

// TestEventsNumberOfStreamsIsBounded: more viewers than that are refused, until another goes.
func TestEventsNumberOfStreamsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		handler := page.Handler(zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener())), "/")
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		first, firstLeaves := context.WithCancel(t.Context())
		for i := range most {
			at := ctx
			if i == 0 {
				at = first
			}
			require.Equal(t, comment, <-view(at, handler, "/?events").chunks)
		}
		for range 2 {
			refused := httptest.NewRecorder()
			handler.ServeHTTP(refused, request(ctx, http.MethodGet, "/?events"))
			require.Equal(t, http.StatusServiceUnavailable, refused.Code)
			require.Contains(t, refused.Body.String(), "100 viewers")
		}
		firstLeaves()
		synctest.Wait()
		require.Equal(t, comment, <-view(ctx, handler, "/?events").chunks)
	})
}

// TestEventsStreamEndsWithTheClient, and of an invalid path there is none.
func TestEventsStreamEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener()))
		handler := page.Handler(client, "/")
		require.Equal(t, http.StatusBadRequest, get(t, handler, "/?events&lock=relative").Code)
		v := view(t.Context(), handler, "/?events")
		require.Equal(t, comment, <-v.chunks)
		require.NoError(t, client.Close())
		<-v.ended
		require.Equal(t, framework.ErrClosed, client.Health().Err)
	})
}

// TestEventsPageShowsRegistrations.
func TestEventsPageShowsRegistrations(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	hold(t, client, "/locks/report", locks.WithLabel("nightly"))
	must.Get(other.Create(t.Context(), "/queue/queue-", []byte("work"), framework.CreatingParentsIfNeeded(), framework.WithMode(framework.PersistentSequential)))(t)
	body := get(t, page.Handler(client, "/"), "/").Body.String()
	require.Contains(t, body, "Registrations, queues and barriers")
	require.Contains(t, body, "/queue</a></td><td role=\"cell\" data-label=\"kind\">queue</td><td role=\"cell\" data-label=\"items\" class=\"number\">1</td>")
}
