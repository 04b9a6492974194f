// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// TestPausedServerCostsNoSession: one that accepts connections and says nothing, for
// longer than the session timeout, while the other two of three are well. Clients may be
// connected to it at first, or come to it when an election has disconnected them; and
// they have to go on to another before their sessions are over.
func TestPausedServerCostsNoSession(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Log("three real servers are left to the full run")
		return
	}
	const (
		timeout = 30 * time.Second // of which a client that notices has a third, also on a busy machine
		paused  = 33 * time.Second
		clients = 20
	)
	for name, choose := range map[string]func(*ensemble.Ensemble) (*ensemble.Server, error){
		"the leader": func(servers *ensemble.Ensemble) (*ensemble.Server, error) { return servers.Leader(t.Context()) },
		"a follower": func(servers *ensemble.Ensemble) (*ensemble.Server, error) {
			followers, err := servers.Followers(t.Context())
			if err != nil {
				return nil, err
			}
			return followers[0], nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := zktest.NewEnsemble(t, 3, ensemble.WithConfig("maxSessionTimeout", strconv.Itoa(int(timeout.Milliseconds()))))
			var all []*worker
			for range clients {
				f := zktest.Client(t, servers.ConnectString(), framework.WithSessionTimeout(timeout))
				all = append(all, &worker{f: f, session: f.Session()})
			}
			server, err := choose(servers)
			require.NoError(t, err)
			pauseFor(t, server, paused, all)
		})
	}
}

// worker is a client that has something to do all the time.
type worker struct {
	f       *framework.Framework
	session *framework.Session // that of the beginning
	writes  int
	silence time.Duration // the longest without a write
}

// pauseFor pauses a server while the clients work, and looks after their sessions.
func pauseFor(t *testing.T, s *ensemble.Server, d time.Duration, all []*worker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	require.NoError(t, s.Pause())
	var done sync.WaitGroup
	for _, w := range all {
		done.Go(func() { w.work(ctx) })
	}
	done.Wait()
	var longest time.Duration
	for _, w := range all {
		require.NoError(t, w.session.Err())
		require.Same(t, w.session, w.f.Session())
		require.NotZero(t, w.writes, "the others are well")
		longest = max(longest, w.silence)
	}
	t.Logf("measured: %v paused for %v, no client of %d without a write for more than %v", s, d, len(all), longest)
	require.NoError(t, s.Resume())
}

// work writes until the context ends.
func (w *worker) work(ctx context.Context) {
	w.writes, w.silence = 0, 0
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := time.Now(); ; {
		if err := w.f.Set(ctx, "/", nil); err == nil {
			w.writes++
			w.silence = max(w.silence, time.Since(last))
			last = time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.silence = max(w.silence, time.Since(last))
			return
		}
	}
}
