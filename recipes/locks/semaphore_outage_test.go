package locks_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// Twenty holders of a permit each are cut off. Each knows that it has lost it before
// anybody else has it, and all permits are back when the sessions are over.
func TestPermitsOfLostSessionsComeBack(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/semaphores/s"
		link := zktest.NewProxy(t, server.Addr())
		var mu sync.Mutex
		var held []*locks.Lease
		var wg sync.WaitGroup
		for range trials {
			wg.Go(func() {
				client := zktest.Client(t, server.ConnectStringVia(link.Addr()), framework.WithSessionTimeout(shortSession))
				s := newSemaphore(t, client, path, locks.FixedLeases(trials), locks.WithErrorPolicy(framework.SessionErrorPolicy))
				lease := acquire(t, s)
				mu.Lock()
				held = append(held, lease)
				mu.Unlock()
			})
		}
		wg.Wait()
		rival := newSemaphore(t, zktest.Client(t, server.ConnectString()), path, locks.FixedLeases(trials))
		_, err := rival.TryAcquire(withLimit(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)

		type permit struct {
			lease *locks.Lease
			valid int // of those before, at this moment
		}
		permits := make(chan permit, trials)
		go func() {
			for range trials {
				lease, err := rival.Acquire(withLimit(t))
				valid := 0
				for _, other := range held {
					if other.Err() == nil {
						valid++
					}
				}
				if err != nil {
					t.Errorf("acquire: %v", err)
				}
				permits <- permit{lease, valid}
			}
		}()
		link.Blackhole(zkproxy.Both)
		cut := time.Now()
		var mine []*locks.Lease
		for range trials {
			p := <-permits
			mine = append(mine, p.lease)
			require.LessOrEqual(t, len(mine)+p.valid, trials)
		}
		t.Logf("all permits were back after %v", time.Since(cut))
		for _, lease := range held {
			var lost *locks.LostError
			require.ErrorAs(t, lease.Release(withLimit(t)), &lost)
		}
		releaseAll(t, mine)
		link.Heal()
	})
}
