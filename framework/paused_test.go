// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestPausedServerCostsNoSession: one that accepts connections and says nothing, for
// longer than the session timeout, while the other two of three are well. Clients may be
// connected to it at first, or come to it when an election has disconnected them; and
// they have to go on to another before their sessions are over.
func TestPausedServerCostsNoSession(t *testing.T) {
	const (
		timeout = 30 * time.Second
		paused  = 33 * time.Second
		clients = 20
	)
	for name, choose := range map[string]func(*zkserver.Ensemble) *zkserver.Server{
		"the leader": (*zkserver.Ensemble).Leader,
		"a follower": func(servers *zkserver.Ensemble) *zkserver.Server { return servers.Followers()[0] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := zktest.NewEmbeddedEnsemble(t, 3, zkserver.WithoutListener())
				var all []*worker
				for range clients {
					f := zktest.Client(t, servers, framework.WithSessionTimeout(timeout))
					all = append(all, &worker{f: f, session: f.Session()})
				}
				server := choose(servers)
				server.Pause()
				ctx, cancel := context.WithTimeout(t.Context(), paused)
				defer cancel()
				var done sync.WaitGroup
				for _, w := range all {
					done.Go(func() { w.work(ctx) })
				}
				done.Wait()
				for _, w := range all {
					require.NoError(t, w.session.Err())
					require.Same(t, w.session, w.f.Session())
					require.Less(t, w.silence, timeout, "the others are well")
				}
				server.Resume()
			})
		})
	}
}

// worker is a client that has something to do all the time.
type worker struct {
	f       *framework.Framework
	session *framework.Session // that of the beginning
	silence time.Duration      // the longest without a write
}

// work writes until the context ends.
func (w *worker) work(ctx context.Context) {
	w.silence = 0
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := time.Now(); ; {
		if err := w.f.Set(ctx, "/", nil); err == nil {
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
