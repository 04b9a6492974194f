// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// edit has another client write to the znode of an instance.
func edit(t *testing.T, client *framework.Framework, change func(string) string) {
	t.Helper()
	data := must.Get(client.Get(zktest.Context(t), "/services/orders/a"))(t)
	require.NoError(t, client.Set(zktest.Context(t), "/services/orders/a", []byte(change(string(data)))))
}

func disabled(data string) string {
	return strings.Replace(data, `"enabled":true`, `"enabled":false`, 1)
}

func TestEditedInstanceStaysAsAnOperatorHasMadeItOnRequest(t *testing.T) {
	t.Parallel()
	for name, onRequest := range map[string]bool{"with a listener": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client, operator := zktest.Client(t, server), zktest.Client(t, server)
				d, edits := newServices(t, client), make(chan instance, 10)
				if onRequest {
					d.OnEdit(func(i instance) { edits <- i })
				}
				a := register(t, d, newInstance("a"))
				p := newProvider(t, newServices(t, operator), discovery.ProviderConfig[string]{})
				awaitIDs(t, p, "a")

				edit(t, operator, disabled)
				awaitIDs(t, p)
				a.Disabled = true
				if onRequest {
					require.Equal(t, a, zktest.Await(t, edits, "the edit"))
				}
				zktest.KillSession(t, client)
				awaitOwner(t, client, operator)
				found, _, err := newServices(t, operator).Instance(zktest.Context(t), "orders", "a")
				require.NoError(t, err)
				require.Equal(t, onRequest, found.Disabled)

				a.Disabled = false
				require.NoError(t, d.Update(zktest.Context(t), a))
				awaitIDs(t, p, "a")
				require.Empty(t, edits, "an own change is no edit")
			})
		})
	}
}

func TestEditThatIsNoFormOfTheInstanceIsLoggedAndNotKept(t *testing.T) {
	for what, change := range map[string]func(string) string{
		"{}":       func(string) string { return "{}" },
		"other id": func(data string) string { return strings.Replace(data, `"id":"a"`, `"id":"b"`, 1) },
		"static":   func(data string) string { return strings.Replace(data, `DYNAMIC`, `STATIC`, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lines
				server := zktest.NewServer(t, zkserver.WithoutListener())
				client := zktest.Client(t, server, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				operator := zktest.Client(t, server)
				d := newServices(t, client)
				d.OnEdit(func(i instance) { t.Errorf("told %v", i) })
				a := register(t, d, newInstance("a"))
				edit(t, operator, change)
				time.Sleep(time.Minute)
				require.Len(t, log.about("cannot be kept"), 1)
				zktest.KillSession(t, client)
				time.Sleep(time.Minute)
				found, _, err := d.Instance(t.Context(), "orders", "a")
				require.NoError(t, err)
				require.Equal(t, a, found)
			})
		})
	}
}

// Between the look of a Put and its write, a process registers a dynamic instance of that id.
func TestPutSparesAnInstanceThatIsRegisteredMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		d, theirs := newServices(t, client), newServices(t, other)
		static := newInstance("a")
		static.Type = discovery.Static
		for range 2 { // so that no other znode has its version
			require.NoError(t, d.Put(t.Context(), static))
		}
		var once sync.Once
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			fault := zkserver.Pass
			if r.Op == zkserver.OpSetData && r.SessionID == client.Session().ID() {
				once.Do(func() {
					registered := make(chan struct{})
					go func() {
						defer close(registered)
						_, err := theirs.Remove(t.Context(), "orders", "a")
						assert.NoError(t, errors.Join(err, theirs.Register(t.Context(), newInstance("a"))))
					}()
					fault = zkserver.HoldUntil(registered)
				})
			}
			return fault
		})

		require.ErrorIs(t, d.Put(t.Context(), static), nodes.ErrTaken)

		found, _, err := d.Instance(t.Context(), "orders", "a")
		require.NoError(t, err)
		require.Equal(t, discovery.Dynamic, found.Type)
	})
}
