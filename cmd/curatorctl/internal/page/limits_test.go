// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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

// TestLimitsOnlyOwnHostNamesAreAnswered: another site may have its name point here.
func TestLimitsOnlyOwnHostNamesAreAnswered(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	hold(t, client, "/locks/secret")
	handler := page.Handler(client, "/", "Locks.Example")
	for host, status := range map[string]int{
		"127.0.0.1:8080": 200, "[::1]:8080": 200, "::1": 200, "localhost": 200, "LOCALHOST.:80": 200, "locks.example:443": 200,
		"attacker.example:8080": 421, "127.0.0.1.attacker.example": 421, "": 421, "localhost.attacker.example": 421,
	} {
		for _, query := range []string{"/", "/?page=1", "/?lock=/locks/secret"} {
			r := request(t.Context(), http.MethodGet, query)
			r.Host = host
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			require.Equal(t, status, w.Code, host)
			require.Equal(t, status == 200, strings.Contains(w.Body.String(), "/locks/secret"), host)
		}
	}
	r := request(t.Context(), http.MethodGet, "/?events")
	r.Host = "attacker.example"
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	require.Equal(t, http.StatusMisdirectedRequest, w.Code)
}

// untouched is a body that fails the test when it is read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, http.ErrBodyReadAfterClose
}

// TestLimitsRequestsAreLimited: bodies are refused unread, and so are long queries.
func TestLimitsRequestsAreLimited(t *testing.T) {
	handler := page.Handler(zktest.Client(t, zktest.NewServer(t)), "/")
	for _, target := range []string{"/", "/?events", "/?page=1"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, untouched{t})
		r.Host = "localhost"
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, http.StatusRequestEntityTooLarge, w.Code, target)
	}
	require.Equal(t, http.StatusRequestURITooLong, get(t, handler, "/?q="+strings.Repeat("x", 9000)).Code)
}

// TestLimitsZnodeCannotMakeThePageLarge: what a znode says is cut.
func TestLimitsZnodeCannotMakeThePageLarge(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	hold(t, client, "/locks/large", locks.WithLockData([]byte(strings.Repeat("A", 900_000))))
	hold(t, client, "/locks/"+strings.Repeat("n", 50_000))
	handler := page.Handler(client, "/")
	for _, target := range []string{"/", "/?lock=/locks/large", "/?page=1&lock=/locks/large"} {
		w := get(t, handler, target)
		require.Equal(t, http.StatusOK, w.Code, target)
		require.Less(t, w.Body.Len(), 60_000, target)
	}
}

// TestLimitsLongListHasPages, a filter, counts and orders.
func TestLimitsLongListHasPages(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for i := range 250 {
		path := fmt.Sprintf("/locks/x%03d/_c_0123456789abcdef0123456789abcdef-lock-0000000000", i)
		_, err := client.Create(t.Context(), path, []byte("10.0.0.1"), framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral))
		require.NoError(t, err)
	}
	handler := page.Handler(client, "/")
	rows := func(target string) (body string, n int) {
		body = get(t, handler, target).Body.String()
		return body, strings.Count(body, `<a href="?lock=`)
	}
	body, n := rows("/?sort=path")
	require.Equal(t, 100, n)
	require.Contains(t, textOf(body), "250 in all, 250 held, 0 with waiters")
	require.Contains(t, body, "page 1 of 3")
	body, n = rows("/?sort=path&page=3")
	require.Equal(t, 50, n)
	require.Contains(t, body, "/locks/x249</a>")
	body, n = rows("/?sort=path&page=99999999999999999999")
	require.NotZero(t, n, body)
	body, n = rows("/?q=" + url.QueryEscape("X24"))
	require.Equal(t, 10, n)
	require.Contains(t, textOf(body), "10 with “X24”")
	body, _ = rows("/")
	require.Less(t, strings.Index(body, "/locks/x000<"), strings.Index(body, "/locks/x099<"), "held longest first")
	body, n = rows("/?q=" + url.QueryEscape(`"><script>`))
	require.Zero(t, n)
	require.NotContains(t, body, `"><script>`)
}

// TestLimitsOutageLeavesTheLastPicture, marked as such within two seconds, whether the connection is lost or silent.
func TestLimitsOutageLeavesTheLastPicture(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener())
			client := zktest.Client(t, server)
			must.Get(client.Create(t.Context(), "/locks/report/_c_0123456789abcdef0123456789abcdef-lock-0000000000", []byte("nightly"),
				framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral)))(t)
			handler := page.Handler(client, "/")
			require.Contains(t, get(t, handler, "/").Body.String(), "● Connected")
			ctx, leave := context.WithCancel(t.Context())
			v := view(ctx, handler, "/?events")
			require.Equal(t, comment, <-v.chunks)
			require.Equal(t, changed, v.next())
			began := time.Now()
			release := make(chan struct{})
			if silent {
				remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op == zkserver.OpPing {
						return zkserver.Pass
					}
					return zkserver.HoldUntil(release)
				})
				defer remove()
			} else {
				require.NoError(t, server.Stop())
			}
			require.Equal(t, changed, v.next())
			w := get(t, handler, "/")
			require.LessOrEqual(t, time.Since(began), 2*time.Second)
			require.Equal(t, http.StatusServiceUnavailable, w.Code)
			require.Contains(t, w.Body.String(), "✕ Out of date")
			require.Contains(t, w.Body.String(), `class="stale"`)
			require.Contains(t, w.Body.String(), ">● nightly<", "the last picture is kept")
			leave()
			<-v.ended
			close(release)
			if !silent {
				require.NoError(t, server.Restart())
			}
			require.NoError(t, client.BlockUntilConnected(t.Context()))
			time.Sleep(40 * time.Second)
			w = get(t, handler, "/")
			require.Equal(t, http.StatusOK, w.Code, w.Body)
		})
	}
}
