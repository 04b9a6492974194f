// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// profiled is an element of the answer in JSON.
type profiled struct {
	Path, Code                  string
	Acquisitions, Holds, Losses int
	Wait, Hold                  float64
}

// TestProfileOfAKnownLoad: of fixed holds all figures are right within five hundredths, by the functions that use the locks.
func TestProfileOfAKnownLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		mutex, err := locks.NewInterProcessMutex(client, "/mutex")
		require.NoError(t, err)
		semaphore, err := locks.NewInterProcessSemaphoreV2(client, "/sem", locks.FixedLeases(2))
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, lock := range []locks.InterProcessLock{mutex, mutex, mutex, semaphore, semaphore, semaphore} {
			wg.Go(func() {
				for ctx.Err() == nil {
					lease, err := lock.Acquire(ctx)
					if err != nil {
						assert.ErrorIs(t, err, context.Canceled)
						return
					}
					time.Sleep(100 * time.Millisecond)
					assert.NoError(t, lease.Release(context.Background()))
				}
			})
		}
		ask := func(query string) *httptest.ResponseRecorder {
			answer := httptest.NewRecorder()
			locks.Profile().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+query, nil))
			return answer
		}
		time.Sleep(2 * time.Second) // is not recorded
		began := time.Now()
		answer := ask("?seconds=20&format=json")
		require.Equal(t, 20*time.Second, time.Since(began))
		var found []profiled
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &found))
		require.Len(t, found, 2)
		for i, want := range []profiled{
			{Path: "/mutex", Acquisitions: 200, Holds: 200, Wait: 40, Hold: 20}, {Path: "/sem/leases", Acquisitions: 400, Holds: 400, Wait: 20, Hold: 40},
		} {
			got := found[i]
			require.Equal(t, want.Path, got.Path)
			require.Contains(t, got.Code, "locks_test.TestProfileOfAKnownLoad.")
			require.InEpsilon(t, want.Acquisitions, got.Acquisitions, 0.05)
			require.InEpsilon(t, want.Holds, got.Holds, 0.05)
			require.InEpsilon(t, want.Wait, got.Wait, 0.05)
			require.InEpsilon(t, want.Hold, got.Hold, 0.05)
			require.Zero(t, got.Losses)
		}
		for _, seconds := range []string{"0", "601", "x"} {
			answer := ask("?seconds=" + seconds)
			require.Equal(t, http.StatusBadRequest, answer.Code)
			require.Contains(t, answer.Body.String(), `"`+seconds+`", expected 1 to 600`)
		}
		stop()
		wg.Wait()

		lease, err := mutex.Acquire(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { assert.True(t, server.KillSession(client.Session().ID())) })
		answer = ask("?format=json")
		require.Error(t, lease.Err())
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &found))
		require.Equal(t, []profiled{{Path: "/mutex", Code: "(lost)", Holds: 1, Losses: 1, Hold: found[0].Hold}}, found)
		began = time.Now()
		answer = ask("")
		require.Equal(t, 30*time.Second, time.Since(began))
		require.Equal(t, "\x1f\x8b", answer.Body.String()[:2], "gzipped, as pprof wants it")
	})
}
