// SPDX-License-Identifier: Apache-2.0

package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/discovery/rest"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// TestRESTResource: the paths, statuses and JSON of Curator's DiscoveryResource.
func TestRESTResource(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	services := must.Get(discovery.NewServiceDiscovery[string](client, "/services", nil))(t)
	t.Cleanup(func() { assert.NoError(t, services.Close()) })
	handler := rest.Handler(services, nil, "example.com")
	const one = `{"name":"test","id":"one","address":"10.0.0.1","port":80,"registrationTimeUTC":1325129459728,"serviceType":"STATIC","payload":"From Test <"}`
	const slim = `{"name":"test","id":"one","address":"","registrationTimeUTC":0,"serviceType":"%"}`
	for _, step := range []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"GET", "/v1/service", "", 200, `[]`},
		{"GET", "/v1/service/test", "", 200, `[]`},
		{"GET", "/v1/service/test/one", "", 404, ""},
		{"GET", "/v1/anyservice/test", "", 404, ""},
		{"DELETE", "/v1/service/test/one", "", 404, ""},
		{"PUT", "/v1/service/test/two", one, 400, ""},
		{"PUT", "/v1/service/other/one", one, 400, ""},
		{"PUT", "/v1/service/test/one", "{", 400, ""},
		{"PUT", "/v1/service/test/one", strings.Replace(slim, "%", "DYNAMIC", 1), 400, ""},
		{"PUT", "/v1/service/test/one", strings.Replace(slim, "%", "DYNAMIC_SEQUENTIAL", 1), 400, ""},
		{"PUT", "/v1/service/test/one", strings.Replace(one, "From Test", strings.Repeat("x", 2<<20), 1), 400, ""},
		{"PUT", "/v1/service/test/one", strings.Replace(one, ":80", ":65536", 1), 400, ""},
		{"PUT", "/v1/service/a%2Fb/one", strings.Replace(one, `"test"`, `"a/b"`, 1), 400, ""},
		{"GET", "/v1/service/a%2Fb/one", "", 400, ""},
		{"GET", "/v1/service/a%2fb", "", 400, ""},
		{"GET", "/v1/anyservice/a%2Fb", "", 400, ""},
		{"GET", "/a%2Fb/one", "", 400, ""},
		{"DELETE", "/v1/service/a%2Fb/one", "", 400, ""},
		{"DELETE", "/v1/service/../one", "", 307, ""},
		{"PUT", "/v1/service/test/one", strings.Replace(one, "From Test", strings.Repeat("x", 1<<20-200), 1), 400, ""},
		{"GET", "/v1/service/test", "", 200, `[]`},
		{"PUT", "/v1/service/test/one", strings.Replace(one, ":80", `:"80"`, 1), 201, ""},
		{"PUT", "/v1/service/test/one", one, 201, ""},
		{"GET", "/v1/service", "", 200, `[{"name":"test"}]`},
		{"GET", "/v1/service/test", "", 200, "[" + one + "]"},
		{"GET", "/v1/service/test/one", "", 200, one},
		{"GET", "/v1/anyservice/test", "", 200, one},
		{"GET", "/test/one", "", 200, one},
		{"POST", "/v1/service/test/one", one, 405, ""},
		{"DELETE", "/v1/service/test/one", "", 200, ""},
		{"GET", "/v1/service/test/one", "", 404, ""},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), step.method, step.path, strings.NewReader(step.body)))
		require.Equal(t, step.status, w.Code, "%s %s: %s", step.method, step.path, w.Body)
		if step.answer != "" {
			require.JSONEq(t, step.answer, w.Body.String(), step.path)
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
			require.NotContains(t, w.Body.String(), `\u003c`, "as Jackson writes it")
		}
		require.Equal(t, step.path == "/test/one", w.Header().Get("Warning") != "")
	}
}

// TestRESTDeletesWhatThePathNames, whatever the znode there says.
func TestRESTDeletesWhatThePathNames(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	services := must.Get(discovery.NewServiceDiscovery[string](client, "/services", nil))(t)
	t.Cleanup(func() { assert.NoError(t, services.Close()) })
	instance := discovery.NewInstance[string]("test", "10.0.0.1", 80)
	require.NoError(t, services.Register(t.Context(), instance))
	data := must.Get(client.Get(t.Context(), "/services/test/"+instance.ID))(t)
	for name, data := range map[string][]byte{"impostor": data, "garbage": []byte("{")} {
		must.Get(client.Create(t.Context(), "/services/test/"+name, data))(t)
		w := httptest.NewRecorder()
		rest.Handler(services, nil, "example.com").ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/v1/service/test/"+name, http.NoBody))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.True(t, must.Get(services.Registered(instance))(t))
	}
}

// TestRESTOfSeveralHandlers: what was put at one, twice or before a restart, ends by a DELETE at another, and does not come back.
func TestRESTOfSeveralHandlers(t *testing.T) {
	server := zktest.NewServer(t)
	gateway := func() (http.Handler, *discovery.ServiceDiscovery[string]) {
		services := must.Get(discovery.NewServiceDiscovery[string](zktest.Client(t, server), "/services", nil))(t)
		return rest.Handler(services, nil, "example.com"), services
	}
	do := func(h http.Handler, method, id, body string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/v1/service/test/"+id, strings.NewReader(body)))
		return w.Code
	}
	const one = `{"name":"test","id":"one","address":"10.0.0.1","port":80,"registrationTimeUTC":1,"serviceType":"STATIC"}`
	a, first := gateway()
	b, _ := gateway()
	require.Equal(t, 201, do(a, "PUT", "one", one))
	require.Equal(t, 201, do(b, "PUT", "one", one))
	require.NoError(t, first.Close())
	require.Equal(t, 200, do(b, "GET", "one", ""), "it outlives the handler")
	c, services := gateway()
	require.Equal(t, 200, do(c, "DELETE", "one", ""))
	require.Equal(t, 404, do(b, "DELETE", "one", ""))
	live := discovery.NewInstance[string]("test", "10.0.0.2", 80)
	require.NoError(t, services.Register(t.Context(), live))
	require.Equal(t, 404, do(b, "GET", "one", ""))

	require.Equal(t, 409, do(b, "DELETE", live.ID, ""), "its process lives")
	require.Equal(t, 409, do(b, "PUT", live.ID, strings.ReplaceAll(one, `"one"`, `"`+live.ID+`"`)))
	require.Equal(t, 200, do(b, "GET", live.ID, ""))
	require.Equal(t, 409, do(c, "DELETE", live.ID, ""), "its own process")
	require.Equal(t, 409, do(c, "PUT", live.ID, strings.ReplaceAll(one, `"one"`, `"`+live.ID+`"`)))
	require.NoError(t, services.Unregister(live))
	require.Equal(t, 404, do(b, "GET", live.ID, ""))
	own := discovery.NewInstance[string]("test", "10.0.0.3", 80)
	own.Type = discovery.Static
	require.NoError(t, services.Register(t.Context(), own))
	require.Equal(t, 200, do(c, "DELETE", own.ID, ""), "a static one that the own process keeps")
	require.False(t, must.Get(services.Registered(own))(t))
	require.NoError(t, services.Close())
}

// TestRESTHostsOfOthers are refused: a site could have its own name point here.
func TestRESTHostsOfOthers(t *testing.T) {
	services := must.Get(discovery.NewServiceDiscovery[string](zktest.Client(t, zktest.NewServer(t)), "/services", nil))(t)
	handler := rest.Handler(services, nil, "discovery.internal.example")
	for host, status := range map[string]int{
		"evil.example": 421, "discovery.internal.example.evil.example": 421, "": 421, "localhost.evil.example": 421,
		"localhost:8080": 200, "127.0.0.1:8080": 200, "[::1]:8080": 200, "Discovery.Internal.Example.": 200,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/service", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, status, w.Code, "%q: %s", host, w.Body)
	}
}

// TestRESTStrategyThatPanics is an answer, and not the end of a connection.
func TestRESTStrategyThatPanics(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	services := must.Get(discovery.NewServiceDiscovery[string](client, "/services", nil))(t)
	w := httptest.NewRecorder()
	rest.Handler(services, broken{}, "example.com").ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/anyservice/test", http.NoBody))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "no such choice")
}

// registered returns a discovery with instances of services, which have the ports from 1.
func registered(t *testing.T, ports int, names ...string) *discovery.ServiceDiscovery[string] {
	t.Helper()
	services := must.Get(discovery.NewServiceDiscovery[string](zktest.Client(t, zktest.NewServer(t)), "/services", nil))(t)
	t.Cleanup(func() { assert.NoError(t, services.Close()) })
	for _, name := range names {
		for port := 1; port <= ports; port++ {
			require.NoError(t, services.Register(t.Context(), discovery.NewInstance[string](name, "10.0.0.1", port)))
		}
	}
	return services
}

// anyOf asks for any instance of each service, in turn, and returns the answers and how often each came.
func anyOf(t *testing.T, handler http.Handler, times int, names ...string) map[string]int {
	t.Helper()
	answers := map[string]int{}
	for range times {
		for _, name := range names {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/anyservice/"+name, http.NoBody))
			answers[w.Body.String()]++
		}
	}
	return answers
}

// TestRESTStrategySeesInstances that it weighs.
func TestRESTStrategySeesInstances(t *testing.T) {
	weight := func(i *discovery.ServiceInstance[string]) int { return *i.Port - 2 } // only the last has one
	answers := anyOf(t, rest.Handler(registered(t, 3, "one"), discovery.Weighted(weight), "example.com"), 10, "one")
	require.Len(t, answers, 1)
	for answer := range answers {
		require.Contains(t, answer, `"port":3`)
	}
}

// TestRESTTurnsOfEachService: requests for one service take no turns of another.
func TestRESTTurnsOfEachService(t *testing.T) {
	require.Len(t, anyOf(t, rest.Handler(registered(t, 2, "one", "two"), nil, "example.com"), 2, "one", "two"), 4)
}

// TestRESTStrategyMayStayWithAnInstance, whatever instances are there before it.
func TestRESTStrategyMayStayWithAnInstance(t *testing.T) {
	sticky := discovery.Sticky(discovery.RoundRobin())
	require.Len(t, anyOf(t, rest.Handler(registered(t, 3, "one"), sticky, "example.com"), 3, "one"), 1)
}

type broken struct{}

func (broken) Choose(discovery.Candidates) int { panic("no such choice") }

// deadlines is a writer that records the deadlines of its connection.
type deadlines struct {
	*httptest.ResponseRecorder

	set     []time.Time
	written time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.written = t
	return nil
}

// TestRESTLeavesNoDeadline on a connection: net/http ends the contexts of all its later requests when it passes.
func TestRESTLeavesNoDeadline(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	services := must.Get(discovery.NewServiceDiscovery[string](client, "/services", nil))(t)
	t.Cleanup(func() { assert.NoError(t, services.Close()) })
	const one = `{"name":"test","id":"one","address":"10.0.0.1","port":80,"registrationTimeUTC":1,"serviceType":"STATIC"}`
	for _, step := range []struct {
		method, body string
		status       int
	}{{"PUT", one, 201}, {"PUT", "{", 400}, {"GET", "", 200}, {"DELETE", "", 200}} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		request := httptest.NewRequestWithContext(t.Context(), step.method, "/v1/service/test/one", strings.NewReader(step.body))
		rest.Handler(services, nil, "example.com").ServeHTTP(w, request)
		require.Equal(t, step.status, w.Code)
		if step.method == http.MethodGet {
			require.WithinRange(t, w.written, time.Now(), time.Now().Add(time.Minute), "a client that does not read is let go")
		}
		if step.body == "" {
			require.Empty(t, w.set, step.method)
			continue
		}
		require.Len(t, w.set, 2, step.method)
		require.True(t, w.set[0].After(time.Now()))
		require.Zero(t, w.set[1])
	}
}

// TestRESTServersErrorIs500, as in Curator.
func TestRESTServersErrorIs500(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	services := must.Get(discovery.NewServiceDiscovery[string](client, "/services", nil))(t)
	require.NoError(t, services.Close())
	require.NoError(t, client.Close())
	for _, path := range []string{"/v1/service", "/v1/anyservice/test"} {
		w := httptest.NewRecorder()
		rest.Handler(services, nil, "example.com").ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		require.Equal(t, http.StatusInternalServerError, w.Code, path)
	}
}
