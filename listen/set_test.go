// SPDX-License-Identifier: Apache-2.0

package listen_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/listen"
)

// recorder is a listener that keeps what it was told. It has no lock: the Set promises that it needs none.
type recorder struct{ told []int }

func (r *recorder) listen(v int) { r.told = append(r.told, v) }

// blocker is a listener that stands still in each call until the test lets it go on.
type blocker struct {
	recorder
	entered chan int      // told value, on the way in
	leave   chan struct{} // a value lets one call return, close all of them
}

func newBlocker() *blocker {
	return &blocker{entered: make(chan int), leave: make(chan struct{})}
}

func (b *blocker) listen(v int) {
	b.entered <- v
	<-b.leave
	b.recorder.listen(v)
}

// flush waits, for 30 seconds at most, until everything has been delivered.
func flush[T any](tb testing.TB, set *listen.Set[T]) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	require.NoError(tb, set.Flush(ctx))
}

// receive waits for c, for 30 seconds at most.
func receive[T any](tb testing.TB, c <-chan T, what string) T {
	tb.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(30 * time.Second):
		require.FailNow(tb, "timed out", "waiting for %s", what)
		panic("unreachable")
	}
}

func count(n int) []int {
	values := make([]int, n)
	for i := range values {
		values[i] = i
	}
	return values
}

func TestAddOfNilPanics(t *testing.T) {
	var set listen.Set[int]
	require.PanicsWithValue(t, "listen: Add of a nil listener, expected a func(int)", func() { set.Add(nil) })
	require.PanicsWithValue(t, "listen: New with a nil option, expected one such as OnPanic", func() { listen.New[int](nil) })
	var none context.Context
	require.ErrorContains(t, set.Flush(none), "listen: flush: context nil, expected")
	require.Zero(t, set.Len())
}

func TestSetProducersAreOrderedAlikeForAllListeners(t *testing.T) {
	type value struct{ producer, n int }
	const producers, each = 6, 400
	var (
		set  listen.Set[value]
		told [4][]value
	)
	for i := range told {
		set.Add(func(v value) {
			told[i] = append(told[i], v)
			if i == 1 {
				runtime.Gosched() // one that lags behind
			}
		})
	}
	var running sync.WaitGroup
	for producer := range producers {
		running.Go(func() {
			for n := range each {
				set.Notify(value{producer, n})
			}
		})
	}
	running.Wait()
	flush(t, &set)

	var next [producers]int
	for _, v := range told[0] {
		require.Equal(t, next[v.producer], v.n, "producer %d", v.producer)
		next[v.producer]++
	}
	require.Len(t, told[0], producers*each)
	for i := range told {
		require.True(t, slices.Equal(told[0], told[i]), "listeners 0 and %d were told different orders", i)
	}
}

func TestNotifyDoesNotCallOnItsOwnGoroutine(t *testing.T) {
	var (
		set listen.Set[int]
		mu  sync.Mutex
		rec recorder
	)
	set.Add(func(v int) {
		mu.Lock()
		defer mu.Unlock()
		rec.listen(v)
	})
	mu.Lock() // a listener called from here could not return
	set.Notify(0)
	set.Notify(1)
	require.Empty(t, rec.told)
	mu.Unlock()
	flush(t, &set)
	require.Equal(t, count(2), rec.told)
}

func TestSetSlowListenerDelaysNobody(t *testing.T) {
	var set listen.Set[int]
	slow := newBlocker()
	fast := make(chan int)
	set.Add(slow.listen)
	set.Add(func(v int) { fast <- v })

	set.Notify(0)
	require.Equal(t, 0, receive(t, slow.entered, "the slow listener"))
	for v := 1; v < 500; v++ {
		set.Notify(v) // does not wait for the slow one either
	}
	for v := range 500 {
		require.Equal(t, v, receive(t, fast, "the fast listener"))
	}
	require.Empty(t, slow.told)

	for v := 1; v < 500; v++ {
		slow.leave <- struct{}{}
		require.Equal(t, v, receive(t, slow.entered, "the slow listener"))
	}
	close(slow.leave)
	flush(t, &set)
	require.Equal(t, count(500), slow.told, "nothing was dropped")
}

func TestListenerMayUseItsSet(t *testing.T) {
	var (
		set  listen.Set[int]
		told []int
		late recorder
	)
	set.Add(func(v int) {
		told = append(told, v)
		if v == 0 {
			set.Add(late.listen)
			set.Notify(1)
			set.Notify(set.Len())
			if len(told) != 1 {
				t.Errorf("told %v during the first call, want [0]: a Notify within a call is delivered after it", told)
			}
		}
	})
	set.Notify(0)
	flush(t, &set) // 0, and with it the Notify calls within
	flush(t, &set)
	require.Equal(t, []int{0, 1, 2}, told)
	require.Equal(t, []int{1, 2}, late.told)
}

func TestSetNoGoroutineWhenIdle(t *testing.T) {
	var set listen.Set[int]
	var registrations []*listen.Registration
	for range 20 {
		registrations = append(registrations, set.Add(func(int) {}))
	}
	goleak.VerifyNone(t)
	for v := range 100 {
		set.Notify(v)
	}
	flush(t, &set)
	goleak.VerifyNone(t) // nothing was closed or removed
	require.Equal(t, len(registrations), set.Len())
}

// collected reports whether the garbage collector finds v unreachable.
func collected[T any](v weak.Pointer[T]) bool {
	for range 100 {
		runtime.GC()
		if v.Value() == nil {
			return true
		}
	}
	return false
}

func TestSetDeliveredValuesAreReleased(t *testing.T) {
	type big struct{ _ [1 << 16]byte }
	var set listen.Set[*big]
	entered, leave := make(chan struct{}), make(chan struct{})
	registration := set.Add(func(*big) {
		entered <- struct{}{}
		<-leave
	})
	var values []weak.Pointer[big]
	for range 4 {
		v := new(big)
		values = append(values, weak.Make(v))
		set.Notify(v)
	}
	receive(t, entered, "the first call")
	leave <- struct{}{}
	receive(t, entered, "the second call")
	require.True(t, collected(values[0]), "the first value is kept after its delivery, with others queued")
	require.NotNil(t, values[2].Value(), "the third value is still to be delivered")
	require.NotNil(t, values[3].Value(), "the fourth value is still to be delivered")
	registration.Remove()
	require.True(t, collected(values[2]), "the third value is kept though it was discarded")
	require.True(t, collected(values[3]), "the fourth value is kept though it was discarded")
	close(leave)
	receive(t, registration.Done(), "the second call to return")
	require.True(t, collected(values[1]), "the second value is kept after its delivery")
	runtime.KeepAlive(&set)
}

func TestSetRemovedListenersAreReleased(t *testing.T) {
	var set listen.Set[int]
	add := func() (weak.Pointer[recorder], *listen.Registration) {
		rec := new(recorder)
		return weak.Make(rec), set.Add(rec.listen)
	}
	first, firstRegistration := add()
	second, secondRegistration := add()
	set.Notify(0)
	flush(t, &set)
	firstRegistration.Remove()
	require.NotNil(t, second.Value(), "the second listener is still in the set")
	secondRegistration.Remove()
	require.True(t, collected(first), "the set keeps a removed listener")
	require.True(t, collected(second), "the set keeps a removed listener")
	runtime.KeepAlive(&set)
}
