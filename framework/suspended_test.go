package framework_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

// TestAHoldDoesNotOutliveASuspension: the servers' clocks go on while the machine of the
// client is suspended. The deadline has passed when it resumes, and what is held ends
// without waiting for a timer that stood still.
func TestAHoldDoesNotOutliveASuspension(t *testing.T) {
	for _, policy := range []framework.ErrorPolicy{framework.SessionErrorPolicy, framework.QuorumErrorPolicy} {
		t.Run(policy.String(), func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				var suspended atomic.Int64
				suspended.Store(int64(time.Hour)) // before the client began
				f, states := n.newClient(t, framework.SuspendedFor(func() time.Duration { return time.Duration(suspended.Load()) }))
				require.NoError(t, f.Start())
				states.expect(t, framework.Connected)
				session := f.Session()
				held, release, err := session.Hold(t.Context(), policy)
				require.NoError(t, err)
				defer release()
				time.Sleep(3 * memSession) // a clock that is ahead by a constant is none that jumps
				require.NoError(t, held.Err())

				suspended.Add(int64(memSession / 10)) // short enough
				time.Sleep(memSession / 10)
				require.NoError(t, held.Err())

				n.setHole(true) // nothing confirms the session any more
				suspended.Add(int64(memSession))
				began := time.Now()
				<-held.Done()
				require.False(t, time.Now().Before(session.HoldDeadline(policy)))
				require.LessOrEqual(t, time.Since(began), time.Second)
				synctest.Wait()
				require.Error(t, session.Err())
			})
		})
	}
}
