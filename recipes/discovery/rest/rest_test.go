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

	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/discovery/rest"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// TestRESTResource: the paths, statuses and JSON of Curator's DiscoveryResource.
func TestRESTResource(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	services, err := discovery.NewServiceDiscovery[string](client, "/services", nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, services.Close()) })
	handler := rest.Handler(services, nil)
	const one = `{"name":"test","id":"one","address":"10.0.0.1","port":80,"registrationTimeUTC":1325129459728,"serviceType":"STATIC","payload":"From Test"}`
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
		{"DELETE", "/v1/service/test/one", "", 200, ""},
		{"PUT", "/v1/service/test/two", one, 400, ""},
		{"PUT", "/v1/service/other/one", one, 400, ""},
		{"PUT", "/v1/service/test/one", "{", 400, ""},
		{"PUT", "/v1/service/test/one", strings.Replace(slim, "%", "DYNAMIC", 1), 400, ""},
		{"PUT", "/v1/service/test/one", strings.Replace(slim, "%", "DYNAMIC_SEQUENTIAL", 1), 400, ""},
		{"PUT", "/v1/service/test/one", strings.Replace(one, "From Test", strings.Repeat("x", 2<<20), 1), 400, ""},
		{"PUT", "/v1/service/test/one", strings.Replace(one, ":80", ":65536", 1), 400, ""},
		{"PUT", "/v1/service/a%2Fb/one", strings.Replace(one, `"test"`, `"a/b"`, 1), 400, ""},
		{"PUT", "/v1/service/test/one", strings.Replace(one, "From Test", strings.Repeat("x", 1<<20-200), 1), 400, ""},
		{"GET", "/v1/service/test", "", 200, `[]`},
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
		}
		require.Equal(t, step.path == "/test/one", w.Header().Get("Warning") != "")
	}
}

// TestRESTDeletesWhatThePathNames, whatever the znode there says.
func TestRESTDeletesWhatThePathNames(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	services, err := discovery.NewServiceDiscovery[string](client, "/services", nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, services.Close()) })
	instance := discovery.NewInstance[string]("test", "10.0.0.1", 80)
	require.NoError(t, services.Register(t.Context(), instance))
	data, err := client.Get(t.Context(), "/services/test/"+instance.ID)
	require.NoError(t, err)
	for name, data := range map[string][]byte{"impostor": data, "garbage": []byte("{")} {
		_, err = client.Create(t.Context(), "/services/test/"+name, data)
		require.NoError(t, err)
		w := httptest.NewRecorder()
		rest.Handler(services, nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/v1/service/test/"+name, http.NoBody))
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		isKept, err := services.Registered(instance)
		require.NoError(t, err)
		require.True(t, isKept)
	}
}

// TestRESTStrategyThatPanics is an answer, and not the end of a connection.
func TestRESTStrategyThatPanics(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	services, err := discovery.NewServiceDiscovery[string](client, "/services", nil)
	require.NoError(t, err)
	w := httptest.NewRecorder()
	rest.Handler(services, broken{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/anyservice/test", http.NoBody))
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "no such choice")
}

// TestRESTTurnsOfEachService: requests for one service take no turns of another.
func TestRESTTurnsOfEachService(t *testing.T) {
	services, err := discovery.NewServiceDiscovery[string](zktest.Client(t, zktest.NewServer(t)), "/services", nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, services.Close()) })
	for _, name := range []string{"one", "two"} {
		for port := 1; port <= 2; port++ {
			require.NoError(t, services.Register(t.Context(), discovery.NewInstance[string](name, "10.0.0.1", port)))
		}
	}
	handler, answers := rest.Handler(services, nil), map[string]bool{}
	for range 2 {
		for _, name := range []string{"one", "two"} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/anyservice/"+name, http.NoBody))
			answers[w.Body.String()] = true
		}
	}
	require.Len(t, answers, 4)
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
	services, err := discovery.NewServiceDiscovery[string](client, "/services", nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, services.Close()) })
	const one = `{"name":"test","id":"one","address":"10.0.0.1","port":80,"registrationTimeUTC":1,"serviceType":"STATIC"}`
	for _, step := range []struct {
		method, body string
		status       int
	}{{"PUT", one, 201}, {"PUT", "{", 400}, {"GET", "", 200}, {"DELETE", "", 200}} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		request := httptest.NewRequestWithContext(t.Context(), step.method, "/v1/service/test/one", strings.NewReader(step.body))
		rest.Handler(services, nil).ServeHTTP(w, request)
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
	services, err := discovery.NewServiceDiscovery[string](client, "/services", nil)
	require.NoError(t, err)
	require.NoError(t, services.Close())
	require.NoError(t, client.Close())
	w := httptest.NewRecorder()
	rest.Handler(services, nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/service", http.NoBody))
	require.Equal(t, http.StatusInternalServerError, w.Code)
}
