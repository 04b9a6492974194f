// SPDX-License-Identifier: Apache-2.0

package listen_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/listen"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestRemoveDoesNotWaitAndDiscardsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set listen.Set[int]
		slow := newBlocker()
		registration := set.Add(slow.listen)
		for v := range 100 {
			set.Notify(v)
		}
		require.Equal(t, 0, <-slow.entered)
		registration.Remove() // returns though the call has not
		require.Zero(t, set.Len())
		set.Notify(100)
		synctest.Wait()
		require.False(t, closed(registration.Done()), "the call has not returned")
		slow.leave <- struct{}{}
		<-registration.Done()
		require.Equal(t, []int{0}, slow.told)
	})
}

func TestRemoveWithinTheCall(t *testing.T) {
	var set listen.Set[int]
	var rec recorder
	var registration *listen.Registration
	registration = set.Add(func(v int) {
		rec.listen(v)
		if v == 2 {
			registration.Remove()
			registration.Remove()
			if closed(registration.Done()) {
				t.Error("Done is closed before the last call has returned")
			}
		}
	})
	for v := range 10 {
		set.Notify(v)
	}
	receive(t, registration.Done(), "Done")
	require.Equal(t, count(3), rec.told)
}

// TestRegistrationNothingBeginsAfterRemove removes listeners while several goroutines notify as fast as they can. A call that was under
// way may still show itself, once. A second call, a value notified after Remove, or a call that outlives Done may not.
func TestRegistrationNothingBeginsAfterRemove(t *testing.T) {
	const rounds, producers = 400, 3
	const ordinary, tooLate = 0, 1

	var set listen.Set[int]
	var calls [rounds]atomic.Int64
	var final [rounds]int64
	stop := make(chan struct{})
	var running sync.WaitGroup
	for range producers {
		running.Go(func() {
			for !closed(stop) {
				set.Notify(ordinary)
				runtime.Gosched()
			}
		})
	}

	for round := range rounds {
		var registration *listen.Registration
		added := make(chan struct{})
		registration = set.Add(func(v int) {
			calls[round].Add(1)
			if v == tooLate {
				t.Errorf("round %d: a value notified after Remove was delivered", round)
			}
			<-added
			if round%3 == 0 {
				runtime.Gosched() // makes it likely that Remove meets a running call
			}
			if closed(registration.Done()) {
				t.Errorf("round %d: Done was closed during a call", round)
			}
		})
		close(added)
		for range round % 17 {
			runtime.Gosched()
		}

		var removers sync.WaitGroup
		for range 1 + round%2 { // every other round by two at once
			removers.Go(func() {
				registration.Remove()
				before := calls[round].Load()
				set.Notify(tooLate)
				runtime.Gosched()
				if after := calls[round].Load(); after > before+1 {
					t.Errorf("round %d: %d calls showed themselves after Remove, want 1 at most", round, after-before)
				}
			})
		}
		removers.Wait()
		receive(t, registration.Done(), "Done")
		final[round] = calls[round].Load()
	}
	close(stop)
	running.Wait()
	for round := range rounds {
		require.Equal(t, final[round], calls[round].Load(), "round %d: a call began after Done", round)
	}
}
