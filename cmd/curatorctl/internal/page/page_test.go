// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/page"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/recipes/x/slots"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// request has a host name that is the page's own.
func request(ctx context.Context, method, target string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, method, target, http.NoBody)
	r.Host = "localhost:8080"
	return r
}

func get(t *testing.T, handler http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request(t.Context(), http.MethodGet, target))
	return w
}

// textOf returns a page without its tags.
func textOf(body string) string { return regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, "") }

func hold(t *testing.T, client *framework.Framework, path string, opts ...locks.Option) *locks.Lease {
	t.Helper()
	mutex := must.Get(locks.NewInterProcessMutex(client, path, opts...))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	lease := must.Get(mutex.Acquire(ctx))(t)
	t.Cleanup(func() { assert.NoError(t, lease.Release(context.Background())) })
	return lease
}

// TestPageShowsLocks, and the queue of one, as a page and as JSON.
func TestPageShowsLocks(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		lease := hold(t, client, "/locks/report", locks.WithLabel("nightly"))
		handler := page.Handler(client, "/")
		w := get(t, handler, "/debug/locks")
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
		require.Contains(t, w.Body.String(), `<a href="?lock=%2flocks%2freport">/locks/report</a>`)
		require.Contains(t, w.Body.String(), "nightly (")

		w = get(t, handler, "/debug/locks?lock="+url.QueryEscape("/locks/report"))
		require.Equal(t, http.StatusOK, w.Code)
		require.Contains(t, w.Body.String(), lease.Path())
		require.Contains(t, w.Body.String(), client.Session().String())
		require.Contains(t, w.Body.String(), "● holds</td>")
	})
}

// TestPageShowsPartitions: who has which, and which are on their way.
func TestPageShowsPartitions(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	member := must.Get(partition.New(client, "/jobs", partition.Fixed("orders", "bills"), partition.WithID("worker-1"), partition.WithZone("<east>")))(t)
	ctx, cancel := context.WithCancel(t.Context())
	held, ended := make(chan string, 2), make(chan error, 1)
	stuck := hold(t, zktest.Client(t, server), "/jobs/locks/bills")
	go func() {
		ended <- member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
			held <- p.Name
			<-ctx.Done()
			return nil
		})
	}()
	require.Equal(t, "orders", zktest.Await(t, held, "the partition that is free"))
	zktest.Await(t, stuck.Revoked(), "the request for the other one")
	handler := page.Handler(client, "/")
	require.Contains(t, get(t, handler, "/").Body.String(), `<a href="?lock=%2fjobs">/jobs</a></td><td role="cell" data-label="kind">partitions</td>`)
	body := get(t, handler, "/?lock=/jobs").Body.String()
	require.Contains(t, body, "2 partitions for 1 member")
	require.Regexp(t, `class="waits"><td role="cell" data-label="member">worker-1 \(alive, in &lt;east&gt;\)</td><td[^>]*>1</td><td[^>]*>2</td><td[^>]*>1</td>`, body)
	require.Regexp(t, `class="holds"><td[^>]*>orders</td><td[^>]*>worker-1</td><td[^>]*>worker-1</td>.*<td[^>]*>held</td>`, body)
	require.Regexp(t, `class="waits"><td[^>]*>bills</td><td[^>]*>worker-1</td>.*<td[^>]*>moving, asked for</td>`, body)
	second := must.Get(partition.New(client, "/jobs", partition.Fixed("orders", "bills"), partition.WithID("worker-2"), partition.WithSettle(0),
		partition.WithCapacity(partition.MaxCapacity), partition.WithStandbys(1, func(context.Context, string) error { return nil })))(t)
	ready := make(chan error, 1)
	go func() { ready <- second.Run(ctx, func(context.Context, partition.Partition) error { return nil }) }()
	require.Eventually(t, func() bool {
		return strings.Contains(get(t, handler, "/?lock=/jobs").Body.String(), ">worker-2 (1 prepared)</td>")
	}, 20*time.Second, 50*time.Millisecond)
	cancel()
	require.ErrorIs(t, zktest.Await(t, ended, "the end"), context.Canceled)
}

// TestPageShowsJobs: where each stands, and the last runs of one.
func TestPageShowsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		s := must.Get(schedule.New(client, "/cron", schedule.Job{
			Name: "sync", Schedule: schedule.Every(time.Hour), Run: func(context.Context, schedule.Tick) error {
				return errors.New("the <database> is away")
			},
		}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(time.Until(schedule.Every(time.Hour).Next(time.Now()).Add(time.Second)))
		old := []byte(`{"last":"2000-01-01T00:00:00Z","runner":"long gone"}`)
		must.Get(client.Create(t.Context(), "/cron/jobs/old/state", old, framework.CreatingParentsIfNeeded()))(t)
		list := must.Get(schedule.List(t.Context(), client, "/cron"))(t)
		runner := list[1].Runner
		handler := page.Handler(client, "/")

		require.Contains(t, get(t, handler, "/").Body.String(),
			`<a href="?lock=%2fcron">/cron</a></td><td role="cell" data-label="kind">jobs</td><td role="cell" data-label="items" class="number">2</td>`)
		body := get(t, handler, "/?lock=/cron").Body.String()
		require.Regexp(t, `class="error"><td[^>]*><a href="\?lock=%2fcron&amp;job=old">old</a></td><td[^>]*>no replica has it</td>`, body)
		require.NotContains(t, body, "long gone")
		tick := list[1].Last.Format("2006-01-02 15:04:05Z")
		next := list[1].Next.Format("2006-01-02 15:04:05Z")
		require.Regexp(t, `class="error"><td[^>]*><a href="\?lock=%2fcron&amp;job=sync">sync</a></td><td[^>]*>failing</td><td[^>]*></td>`+
			`<td[^>]*>`+next+`</td><td[^>]*>`+runner+`</td><td[^>]*>1</td><td[^>]*>0</td>`, body)
		require.NotContains(t, body, "last runs of")
		body = get(t, handler, "/?lock=/cron&job=sync").Body.String()
		require.Contains(t, body, "last runs of sync")
		require.Regexp(t, `class="error"><td[^>]*>`+tick+`</td><td[^>]*>failed</td><td[^>]*>1</td><td[^>]*>0s</td><td[^>]*>0s</td>`+
			`<td[^>]*>`+runner+`</td><td[^>]*>the &lt;database&gt; is away</td>`, body)
		require.NotContains(t, get(t, handler, "/?lock=/cron&job=other").Body.String(), "last runs of")
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// TestPageIsHarmless: what others have written in ZooKeeper stays text, no other host is
// asked for anything, and only the page's own script and style may run.
func TestPageIsHarmless(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	const evil = `<script>alert(1)</script>`
	path := "/locks/" + strings.ReplaceAll(evil, "/", "") + `"onclick="x`
	hold(t, client, path, locks.WithLockData([]byte(evil+"\x00\xff")))
	handler := page.Handler(client, "/")
	own := regexp.MustCompile(`<(script|style) nonce="[A-Z0-9]+">`)
	for _, target := range []string{"/", "/?lock=" + url.QueryEscape(path), "/?lock=" + url.QueryEscape(evil)} {
		w := get(t, handler, target)
		body := w.Body.String()
		require.NotContains(t, strings.ToLower(own.ReplaceAllString(body, "")), "<script")
		require.NotContains(t, body, `"onclick`)
		require.NotRegexp(t, `(src|href|action)\s*=\s*"?(https?:)?//`, body)
		nonce := own.FindString(body)
		require.NotEmpty(t, nonce)
		policy := w.Header().Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'")
		require.Contains(t, policy, "script-src 'nonce-"+strings.Split(nonce, `"`)[1]+"'")
		require.NotContains(t, policy, "unsafe")
	}
	require.Contains(t, get(t, handler, "/").Body.String(), "&lt;script&gt;alert(1)&lt;/script&gt;")
	first, second := get(t, handler, "/").Body.String(), get(t, handler, "/").Body.String()
	require.NotEqual(t, own.FindString(first), own.FindString(second), "a nonce is used once")
}

// TestPageShowsWhatIsHidden: no text may look like another one.
func TestPageShowsWhatIsHidden(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	const reversed = "\u202egpj"
	hold(t, client, "/locks/path"+reversed, locks.WithLockData([]byte("host/7 label"+reversed)))
	hold(t, client, "/data", locks.WithLockData([]byte("data"+reversed)))
	handler := page.Handler(client, "/")
	for _, target := range []string{"/", "/?lock=" + url.QueryEscape("/locks/path"+reversed), "/?lock=" + url.QueryEscape("/none"+reversed), "/?lock=/data"} {
		body := get(t, handler, target).Body.String()
		require.NotContains(t, body, "\u202e", target)
		require.Contains(t, body, `\u202egpj`, target)
	}
}

// TestPageIsReadWithoutScripts: it is complete as it comes, and asks to be loaded again.
func TestPageIsReadWithoutScripts(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	hold(t, client, "/locks/report", locks.WithLabel("nightly"))
	body := get(t, page.Handler(client, "/locks"), "/").Body.String()
	require.Contains(t, body, `<noscript><meta http-equiv="refresh" content="5"></noscript>`)
	before, _, found := strings.Cut(body, "<script")
	require.True(t, found)
	require.Contains(t, before, "nightly (", "nothing waits for a script")
}

// TestPageOnlyReads: other methods are refused, and nothing is written.
func TestPageOnlyReads(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	hold(t, client, "/locks/report")
	handler := page.Handler(client, "/")
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpGetChildren2 && r.Op != zkserver.OpGetData && r.Op != zkserver.OpExists && r.Op != zkserver.OpPing && r.Op != zkserver.OpAddWatch {
			t.Errorf("a request %v", r.Op)
		}
		return zkserver.Pass
	})
	get(t, handler, "/")
	get(t, handler, "/?lock=/locks/report")
	remove()
	bounded := false // a client that sends no body is let go
	withBody := request(t.Context(), http.MethodPut, "/")
	withBody.ContentLength = 1000
	handler.ServeHTTP(bounding{httptest.NewRecorder(), &bounded}, withBody)
	require.True(t, bounded)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, request(t.Context(), method, "/"))
		require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	}
}

// bounding notes that a read deadline is set.
type bounding struct {
	http.ResponseWriter

	bounded *bool
}

func (b bounding) SetReadDeadline(at time.Time) error {
	*b.bounded = !at.IsZero()
	return nil
}

// TestPageWhatCannotBeShown: the status says why, and the page is one still.
func TestPageWhatCannotBeShown(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	handler := page.Handler(client, "/")
	for target, status := range map[string]int{
		"/?lock=/missing": http.StatusNotFound, "/?lock=relative": http.StatusBadRequest, "/?page=1&lock=/missing": http.StatusNotFound,
	} {
		w := get(t, handler, target)
		require.Equal(t, status, w.Code, target)
		require.Regexp(t, "(inspect|page): ", w.Body.String())
	}
	require.Contains(t, get(t, handler, "/?lock=/").Body.String(), "There is no recipe at this path")
	require.NoError(t, server.Stop())
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	w := get(t, handler, "/")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "not connected")
}

// TestPageEndsAtItsPath: what is elsewhere is neither shown nor watched.
func TestPageEndsAtItsPath(t *testing.T) {
	server := zktest.NewServer(t)
	holder, viewer := zktest.Client(t, server), zktest.Client(t, server)
	hold(t, holder, "/locks/report")
	hold(t, holder, "/locks-of-others/report", locks.WithLabel("secret"))
	handler := page.Handler(viewer, "/locks")
	for _, lock := range []string{"/locks", "/locks/report"} {
		require.Equal(t, http.StatusOK, get(t, handler, "/?lock="+lock).Code, lock)
	}
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		isHere := r.Path == "/locks" || strings.HasPrefix(r.Path, "/locks/") // it is followed
		if r.SessionID == viewer.Session().ID() && r.Op != zkserver.OpPing && !isHere {
			t.Errorf("%v %s", r.Op, r.Path)
		}
		return zkserver.Pass
	})
	defer remove()
	ctx, leave := context.WithTimeout(t.Context(), 10*time.Second) // a stream that is not refused has no end
	defer leave()
	for lock, status := range map[string]int{
		"/locks-of-others/report": http.StatusNotFound, "/": http.StatusNotFound, "/missing": http.StatusNotFound,
		"/locks/../locks-of-others/report": http.StatusBadRequest, "locks": http.StatusBadRequest,
	} {
		for _, query := range []string{"?lock=", "?page=1&lock=", "?events&lock="} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, request(ctx, http.MethodGet, "/"+query+url.QueryEscape(lock)))
			require.Equal(t, status, w.Code, query+lock)
			require.NotContains(t, w.Body.String(), "secret")
		}
	}
}

// TestPageExplains says why a lock is stuck, and again when its queue has changed.
func TestPageExplains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener()))
		handler := page.Handler(client, "/")
		const foreign = "/locks/it's/my-lock-0000000000"
		must.Get(client.Create(t.Context(), foreign, nil, framework.CreatingParentsIfNeeded()))(t)
		mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/it's", locks.WithLabel("nightly")))(t)
		got := make(chan *locks.Lease)
		go func() {
			lease, err := mutex.Acquire(t.Context())
			assert.NoError(t, err)
			got <- lease
		}()
		synctest.Wait()
		target := "/?lock=" + url.QueryEscape("/locks/it's")
		text := html.UnescapeString(get(t, handler, target).Body.String())
		require.Contains(t, text, "✕ stuck: a znode is in the way")
		require.Contains(t, text, "so nightly (")
		require.Contains(t, text, `<code>curatorctl rm '/locks/it'\''s/my-lock-0000000000'</code>`)

		require.NoError(t, client.Delete(t.Context(), foreign))
		lease := <-got
		time.Sleep(time.Second) // the picture is fresh until then
		text = html.UnescapeString(get(t, handler, target).Body.String())
		require.Contains(t, text, "<h2 class=\"\">Held, and no client waits</h2>")
		require.NotContains(t, text, "stuck")
		require.NoError(t, lease.Release(t.Context()))
	})
}

// TestPageShowsNumbers of slots, with who has each and who is next.
func TestPageShowsNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener()))
		for _, label := range []string{"first", "second"} {
			numbers := must.Get(slots.New(client, "/ids", 2, slots.WithLabel(label)))(t)
			slot := must.Get(numbers.Take(t.Context()))(t)
			t.Cleanup(func() { require.NoError(t, slot.Release(context.Background())) })
		}
		handler := page.Handler(client, "/")
		require.Contains(t, get(t, handler, "/").Body.String(), `<td role="cell" data-label="kind">slots</td>`)
		text := get(t, handler, "/?lock=/ids").Body.String()
		require.Contains(t, text, "slots: 2 hold, 0 wait")
		require.Regexp(t, `● holds 0</td><td role="cell" data-label="owner">first \(`, text)
		require.Regexp(t, `● holds 1</td><td role="cell" data-label="owner">second \(`, text)
	})
}

// TestPageShowsDeadlocks that are proved after the first view, and tells those who see the list.
func TestPageShowsDeadlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		mutex := func(of *framework.Framework, path string) *locks.InterProcessMutex {
			m := must.Get(locks.NewInterProcessMutex(of, path))(t)
			return m
		}
		ended := make(chan error, 2)
		one, other := zktest.Client(t, server), zktest.Client(t, server)
		first := must.Get(mutex(one, "/locks/a").Acquire(ctx))(t)
		second := must.Get(mutex(other, "/locks/b").Acquire(ctx))(t)
		for lease, next := range map[*locks.Lease]*locks.InterProcessMutex{first: mutex(one, "/locks/b"), second: mutex(other, "/locks/a")} {
			wg.Go(func() {
				_, err := next.Acquire(lease.Context(ctx))
				ended <- errors.Join(err, lease.Release(context.Background()))
			})
		}
		synctest.Wait()
		handler := page.Handler(client, "/locks")
		v := view(ctx, handler, "/?events")
		require.Equal(t, comment, <-v.chunks) // the stream knows what was shown before
		require.NotContains(t, get(t, handler, "/").Body.String(), "deadlock")
		require.Equal(t, changed, v.next())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, v.news(), "the locks are followed")
		time.Sleep(2500 * time.Millisecond) // no event of the page is due at this moment
		synctest.Wait()
		require.Zero(t, v.news(), "nothing is proved yet")
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, v.news())
		text := get(t, handler, "/").Body.String()
		require.Contains(t, text, "✕ deadlock")
		require.Contains(t, text, "holds /locks/a and waits for /locks/b")
		require.Contains(t, text, "holds /locks/b and waits for /locks/a")
		stop()
		wg.Wait()
		for range 2 {
			require.ErrorIs(t, <-ended, context.Canceled)
		}
	})
}
