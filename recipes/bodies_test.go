// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/discovery/rest"
	"github.com/gocurator/curator/recipes/fence"
	"github.com/gocurator/curator/recipes/leader"
)

// deadline records the first read deadline that a handler sets.
type deadline struct {
	*httptest.ResponseRecorder

	first    time.Time
	answered bool
}

func (d *deadline) SetReadDeadline(at time.Time) error {
	if d.first.IsZero() && !d.answered {
		d.first = at
	}
	return nil
}

func (d *deadline) WriteHeader(status int) {
	d.answered = true
	d.ResponseRecorder.WriteHeader(status)
}

// No handler waits forever for a body that is announced and does not come, whatever it answers.
func TestHandlersBoundBodies(t *testing.T) {
	client := must.Get(framework.New("127.0.0.1:1"))(t)
	services := must.Get(discovery.NewServiceDiscovery[string](client, "/services", nil))(t)
	latch := must.Get(leader.NewLeaderLatch(client, "/leader"))(t)
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("forwarded") })
	for name, test := range map[string]struct {
		handler      http.Handler
		host, target string
		status       int
	}{
		"rest":                     {rest.Handler(services, nil), "localhost", "/v1/service/a/1", 400},
		"rest, another host":       {rest.Handler(services, nil), "other.example", "/v1/service/a/1", 421},
		"rest, an encoded slash":   {rest.Handler(services, nil), "localhost", "/v1/service/a%2f/1", 400},
		"rest, no such path":       {rest.Handler(services, nil), "localhost", "/v1/service/a/1/2", 404},
		"fence without a token":    {&fence.Handler{Register: new(fence.Register), Next: next}, "", "/", 428},
		"fence that is not filled": {&fence.Handler{}, "", "/", 500},
		"health of a client":       {client.HealthHandler(), "", "/", 503},
		"health of a candidate":    {latch.HealthHandler(), "", "/", 503},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, test.target, strings.NewReader("{"))
			r.Host = test.host
			w := &deadline{ResponseRecorder: httptest.NewRecorder()}
			test.handler.ServeHTTP(w, r)
			require.Equal(t, test.status, w.Code, w.Body)
			require.WithinRange(t, w.first, time.Now(), time.Now().Add(10*time.Second))
		})
	}
}
