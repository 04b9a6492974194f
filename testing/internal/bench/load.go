// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// load is what a peer is to do: to take turns at one lock.
type load struct {
	Clients    int           // each with a connection of its own
	Goroutines int           // of each client; threads, or what the peer has
	Leases     int           // how many may be in together; 0 is a lock for one
	Readers    int           // how many of ten turns read; the others write
	Queue      bool          // one turn for each goroutine, all of which begin behind another holder
	Verb       string        // instead of a lock: the request that is made
	Paths      int           // how many znodes the requests are about
	Change     string        // how a leader gives way, in an election
	Duration   time.Duration // otherwise turns are counted for so long, after half of it to warm up
}

// result is what came of a load. Times are in microseconds.
type result struct {
	All      int     `json:"all"`   // turns, also those of the warm-up
	Turns    int     `json:"turns"` // that were counted
	Seconds  float64 `json:"seconds"`
	WaitP50  float64 `json:"wait_p50_us"` // of the acquisitions
	WaitP99  float64 `json:"wait_p99_us"`
	TurnP50  float64 `json:"turn_p50_us"` // of acquisition and release together
	Overlaps int     `json:"overlaps"`    // entries while others were in who exclude them

	// From the call that ends a leadership to the next leader's first statement.
	HandP50 float64 `json:"handover_p50_us,omitempty"`
	HandP99 float64 `json:"handover_p99_us,omitempty"`

	// Of the clients, for each turn; kazoo and Curator tell no allocations.
	CPU    float64 `json:"client_cpu_us_per_turn,omitempty"`
	Allocs float64 `json:"allocs_per_turn,omitempty"`
	Heap   float64 `json:"heap_bytes,omitempty"` // for each waiter while all wait

	// Of the servers, for each turn; pings and the warm-up are included.
	Requests      float64 `json:"requests_per_turn,omitempty"`
	Notifications float64 `json:"notifications_per_turn,omitempty"`
	Bytes         float64 `json:"bytes_per_turn,omitempty"`

	ByType map[string]requestCost `json:"requests_by_type,omitempty"` // of our clients, with -requests

	// Of the servers, for one change of the leader among many candidates.
	ChangeRequests float64 `json:"requests_per_change,omitempty"`
	Woken          float64 `json:"woken_per_change,omitempty"`
}

func (r *result) turnsPerSecond() float64 { return float64(r.Turns) / r.Seconds }

// locker is one goroutine's way into the lock: it acquires, for reading if that is
// told apart, and returns the release.
type locker func(ctx context.Context, read bool) (unlock func(context.Context) error, err error)

// measurement is the turns of all goroutines of a load.
type measurement struct {
	load    load
	begun   atomic.Pointer[warm] // nil while warming up
	readers atomic.Int64
	others  atomic.Int64
	overlap atomic.Int64
	all     atomic.Int64

	finished func(i int) error // called when a locker takes no more turns; may be nil

	mu    sync.Mutex
	waits []float64
	turns []float64
}

// drive has every locker take turns until the time is over, and returns what was
// counted.
func drive(ctx context.Context, l load, lockers []locker) (result, error) {
	return driveUntil(ctx, l, lockers, nil)
}

// driveUntil is drive, with something to do when a locker takes no more turns.
func driveUntil(ctx context.Context, l load, lockers []locker, finished func(i int) error) (result, error) {
	m := &measurement{load: l, finished: finished}
	var over atomic.Bool
	warm := time.AfterFunc(l.Duration/2, m.begin)
	defer warm.Stop()
	end := time.AfterFunc(l.Duration*3/2, func() { over.Store(true) })
	defer end.Stop()
	return m.run(ctx, lockers, func() bool { return over.Load() && m.counted() })
}

// drain has every locker take one turn, all of which queue up while holder has the
// lock. The time runs from the first call to the end of the last turn: some peers make a node for each
// waiter at once. Others make one only for the waiters that are next.
func drain(ctx context.Context, l load, holder locker, lockers []locker, queued func() (int, error)) (result, error) {
	unlock, err := holder(ctx, false)
	if err != nil {
		return result{}, err
	}
	m := &measurement{load: l}
	before := heapInUse()
	m.begin()
	var heap float64
	released := make(chan error, 1)
	go func() {
		if err := awaitQueue(ctx, len(lockers)+1, queued); err != nil {
			released <- err
			return
		}
		heap = (float64(heapInUse()) - float64(before)) / float64(len(lockers))
		released <- unlock(ctx)
	}()
	r, err := m.run(ctx, lockers, func() bool { return m.begun.Load() != nil })
	if err == nil {
		err = <-released
		r.Heap = heap
	}
	return r, err
}

// restsFor is how long a queue does not grow when all waiters that get a node have one.
const restsFor = 50 * time.Millisecond

// awaitQueue waits until there are n in the queue, or it does not grow any more.
func awaitQueue(ctx context.Context, n int, queued func() (int, error)) error {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	most, grown := 0, time.Now()
	for {
		there, err := queued()
		if there > most {
			most, grown = there, time.Now()
		}
		if err != nil || there >= n || most > 1 && time.Since(grown) > restsFor {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run has the lockers take turns until over says so after a turn.
func (m *measurement) run(ctx context.Context, lockers []locker, over func() bool) (result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i, lock := range lockers {
		wg.Go(func() {
			if m.finished != nil {
				defer func() {
					if err := m.finished(i); err != nil {
						cancel(err)
					}
				}()
			}
			for turn := i; ctx.Err() == nil; turn++ {
				if err := m.turn(ctx, lock, turn%10 < m.load.Readers); err != nil {
					cancel(err)
				}
				if over() {
					return
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	return m.result(), nil
}

func (m *measurement) begin() {
	m.begun.Store(&warm{time.Now(), costSoFar()})
}

func (m *measurement) turn(ctx context.Context, lock locker, read bool) error {
	began := time.Now()
	unlock, err := lock(ctx, read)
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	entered := time.Now()
	m.enter(read)
	m.leave(read)
	if err := unlock(ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	m.all.Add(1)
	if begun := m.begun.Load(); begun != nil && entered.After(begun.at) {
		m.count(began, entered)
	}
	return nil
}

// counted reports whether any turn was counted.
func (m *measurement) counted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.turns) > 0
}

// count counts a turn that ends now.
func (m *measurement) count(began, entered time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits = append(m.waits, microseconds(entered.Sub(began)))
	m.turns = append(m.turns, microseconds(time.Since(began)))
}

func (m *measurement) enter(read bool) {
	if read {
		m.readers.Add(1)
		if m.others.Load() > 0 {
			m.overlap.Add(1)
		}
		return
	}
	if m.others.Add(1) > int64(max(m.load.Leases, 1)) || m.readers.Load() > 0 {
		m.overlap.Add(1)
	}
}

func (m *measurement) leave(read bool) {
	if read {
		m.readers.Add(-1)
	} else {
		m.others.Add(-1)
	}
}

func (m *measurement) result() result {
	begun := m.begun.Load()
	r := result{All: int(m.all.Load()), Turns: len(m.turns), Seconds: time.Since(begun.at).Seconds(), Overlaps: int(m.overlap.Load())}
	r.spent(begun)
	r.WaitP50, r.WaitP99, r.TurnP50 = percentile(m.waits, 50), percentile(m.waits, 99), percentile(m.turns, 50)
	return r
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// percentile returns the value that p of a hundred do not exceed; 0 of none.
func percentile(values []float64, p int) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

// median is the middle of the values, or of its two middle ones; 0 of none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// heapInUse returns how many bytes of the heap can be reached.
func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
