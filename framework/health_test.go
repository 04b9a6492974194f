// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

// TestHealth takes a client through its life.
func TestHealth(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		n.setDown(true)
		f, states := n.newClient(t)
		check := func(status int, state framework.ConnectionState, reason error) {
			t.Helper()
			health := f.Health()
			require.Equal(t, state.String(), health.State.String())
			require.ErrorIs(t, health.Err, reason)

			answer := httptest.NewRecorder()
			f.HealthHandler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
			require.Equal(t, status, answer.Code)
			require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
			var said struct {
				State, Server, Session, Error string
				SessionSecondsLeft            float64
			}
			require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &said))
			require.Equal(t, state.String(), said.State)
			require.Equal(t, f.Session().String(), said.Session)
			require.Equal(t, map[framework.ConnectionState]string{framework.Connected: "a:1"}[state], health.Server)
			require.Equal(t, health.Server, said.Server)
			if reason == nil {
				require.Empty(t, said.Error)
				require.InDelta(t, memSession.Seconds(), said.SessionSecondsLeft, memSession.Seconds()/2)
			} else {
				require.Equal(t, health.Err.Error(), said.Error)
				require.LessOrEqual(t, said.SessionSecondsLeft, memSession.Seconds()*2/3)
			}
		}
		check(http.StatusServiceUnavailable, framework.NotConnected, framework.ErrNotStarted)
		require.NoError(t, f.Start())
		time.Sleep(time.Second)
		check(http.StatusServiceUnavailable, framework.NotConnected, framework.ErrNotConnected)
		require.ErrorContains(t, f.Health().Err, "the network is down")
		n.setDown(false)
		states.expect(t, framework.Connected)
		check(http.StatusOK, framework.Connected, nil)
		time.Sleep(memSession / 2)
		check(http.StatusOK, framework.Connected, nil)
		n.setDown(true)
		states.expect(t, framework.Suspended)
		time.Sleep(memSession / 2)
		check(http.StatusServiceUnavailable, framework.Suspended, framework.ErrNotConnected)
		states.expect(t, framework.Lost)
		check(http.StatusServiceUnavailable, framework.Lost, framework.ErrNotConnected)
		require.Error(t, f.Close(), "nobody can be told")
		check(http.StatusServiceUnavailable, framework.Lost, framework.ErrClosed)
	})
}
