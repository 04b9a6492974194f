// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/testing/zktest"
)

func newRequest(tb testing.TB, url string) *http.Request {
	tb.Helper()
	r := must.Get(http.NewRequestWithContext(tb.Context(), http.MethodGet, url, http.NoBody))(tb)
	return r
}

// withBody makes a request a PUT, which is repeated.
func withBody(r *http.Request, length int64, body io.Reader) {
	r.Method, r.Body, r.ContentLength = http.MethodPut, io.NopCloser(body), length
	r.GetBody = func() (io.ReadCloser, error) { return nil, errors.New("read it once") }
}

// tooLong is the length that a request with a longer body says.
const tooLong = 2

// Requests that no instance could serve make no instance down.
func TestHTTPFaultyRequestMakesNoInstanceDown(t *testing.T) {
	d := newServices(t, zktest.Client(t, zktest.NewServer(t)))
	var secure instance
	for _, id := range []string{"a", "b", "c"} {
		i, _ := serve(t, id, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.ContentLength == tooLong { // an answer may come before the client meets the rest of the body
				<-r.Context().Done()
			}
		})
		server := httptest.NewUnstartedServer(nil)
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		server.StartTLS()
		t.Cleanup(server.Close)
		port := server.Listener.Addr().(*net.TCPAddr).Port
		i.SSLPort = &port
		secure = register(t, d, i)
	}
	require.NotNil(t, secure.SSLPort)
	p := newProvider(t, d, discovery.ProviderConfig[string]{Down: discovery.DownInstancePolicy{Threshold: 1}})
	awaitIDs(t, p, "a", "b", "c")
	base := &http.Transport{DisableKeepAlives: true}
	away := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	require.NoError(t, away.Close())
	proxied := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: away.Addr().String()})}
	for what, test := range map[string]struct {
		base   http.RoundTripper
		change func(*http.Request)
	}{
		"a header with a line feed":      {base, func(r *http.Request) { r.Header.Set("X-User", "a\nb") }},
		"a name of a header":             {base, func(r *http.Request) { r.Header["X User"] = []string{"a"} }},
		"a method":                       {base, func(r *http.Request) { r.Method = "GET IT" }},
		"a scheme":                       {base, func(r *http.Request) { r.URL.Scheme = "htp" }},
		"no URL":                         {base, func(r *http.Request) { r.URL = nil }},
		"a URL with a control character": {base, func(r *http.Request) { r.URL.RawQuery = "a\x7f\nb" }},
		"no header map":                  {base, func(r *http.Request) { r.Header = nil }},
		"a trailer":                      {base, func(r *http.Request) { r.Trailer = http.Header{"X\n": {"a"}} }},
		"a body that fails":              {base, func(r *http.Request) { withBody(r, -1, iotest.ErrReader(errors.New("damaged"))) }},
		"a body that fails at its end": {base, func(r *http.Request) {
			withBody(r, 100, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF)))
		}},
		"a body that is too short":                 {base, func(r *http.Request) { withBody(r, 100, strings.NewReader("half")) }},
		"a body that is too long":                  {base, func(r *http.Request) { withBody(r, tooLong, strings.NewReader("long")) }},
		"an unknown certificate":                   {base, func(r *http.Request) { r.URL.Scheme = "https" }},
		"a proxy that is away":                     {proxied, func(*http.Request) {}},
		"a base of the caller's":                   {refusing{}, func(*http.Request) {}},
		"a connection that is closed for its sake": {hasty{}, func(*http.Request) {}},
	} {
		t.Run(what, func(t *testing.T) {
			request := newRequest(t, "http://orders/")
			test.change(request)
			response, err := discovery.NewTransport(p, test.base).RoundTrip(request)
			if err == nil {
				require.NoError(t, response.Body.Close())
			}
			require.Error(t, err)
			require.Equal(t, []string{"a", "b", "c"}, ids(p.Instances()))
		})
	}
}

// hasty fails as net/http may when it has closed a connection to which it could not write the head of
// a request.
type hasty struct{}

func (hasty) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	trace.GetConn(r.URL.Host)
	trace.GotConn(httptrace.GotConnInfo{})
	return nil, &net.OpError{Op: "read", Net: "tcp", Err: net.ErrClosed}
}

// refusing is a transport of the caller's own.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("no credentials")
}

func TestHTTPFailedInstanceIsDown(t *testing.T) {
	d := newServices(t, zktest.Client(t, zktest.NewServer(t)))
	breaks := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/read":
			_, _ = io.Copy(io.Discard, r.Body)
		case "/garbage":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "garbage\r\n\r\n")
				_ = conn.Close()
			}
			return
		}
		panic(http.ErrAbortHandler)
	}
	for what, test := range map[string]struct {
		id, path string
		body     io.Reader
		closed   bool
	}{
		"it hangs up":                      {id: "hangs up"},
		"it hangs up while a body is sent": {id: "hangs up at a body", body: strings.NewReader(strings.Repeat("x", 10<<20))},
		"it hangs up after a body":         {id: "hangs up late", path: "read", body: strings.NewReader("x")},
		"it answers garbage":               {id: "garbage", path: "garbage"},
		"it is not there":                  {id: "away", closed: true},
	} {
		t.Run(what, func(t *testing.T) {
			i, server := serve(t, test.id, breaks)
			if test.closed {
				server.Close()
			}
			register(t, d, i)
			p := newProvider(t, d, discovery.ProviderConfig[string]{Down: discovery.DownInstancePolicy{Threshold: 1}})
			awaitIDs(t, p, test.id)
			request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://orders/"+test.path, test.body))(t)
			_, err := discovery.NewTransport(p, nil).RoundTrip(request) //nolint:bodyclose // there is no response
			require.Error(t, err)
			require.Empty(t, p.Instances())
			require.NoError(t, d.Unregister(i))
		})
	}
}

// A request passes over the instances that cannot serve its scheme, and all others share it.
func TestHTTPRequestGoesToAnInstanceWithAPort(t *testing.T) {
	d := newServices(t, zktest.Client(t, zktest.NewServer(t)))
	var calls [4]atomic.Int64
	for n := range calls {
		i, _ := serve(t, string(rune('p'+n)), func(http.ResponseWriter, *http.Request) { calls[n].Add(1) })
		register(t, d, i)
	}
	i := newInstance("a") // each of its turns would be the next one's, if the strategy was asked twice
	i.Port = nil
	register(t, d, i)
	p := newProvider(t, d, discovery.ProviderConfig[string]{})
	require.Eventually(t, func() bool { return len(p.Instances()) == 5 }, limit, time.Millisecond)
	client := &http.Client{Transport: discovery.NewTransport(p, &http.Transport{DisableKeepAlives: true})}
	for range 80 {
		require.NoError(t, must.Get(client.Do(newRequest(t, "http://orders/")))(t).Body.Close())
	}
	for n := range calls {
		require.EqualValues(t, 20, calls[n].Load(), "instance %d", n)
	}
	_, err := client.Do(newRequest(t, "https://orders/")) //nolint:bodyclose // there is no response
	require.ErrorIs(t, err, discovery.ErrNoInstance)
	require.Len(t, p.Instances(), 5)
}
