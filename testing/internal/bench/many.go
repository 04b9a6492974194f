// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// holdMany has the goroutines acquire the locks of a load, each of them once, and
// release them when all are held. The time is that of both.
func holdMany(ctx context.Context, l load, of func(number int) (locker, error)) (result, error) {
	m := &measurement{load: l}
	before := heapInUse()
	m.begin()
	unlocks := make([]func(context.Context) error, l.Locks)
	err := m.each(ctx, func(ctx context.Context, i int) error {
		lock, err := of(i)
		if err != nil {
			return err
		}
		began := time.Now()
		if unlocks[i], err = lock(ctx, false); err != nil {
			return fmt.Errorf("acquire: %w", err)
		}
		m.count(began, time.Now())
		return nil
	})
	if err != nil {
		return result{}, err
	}
	acquired := m.result()
	heap := float64(heapInUse()) - float64(before)
	released := time.Now()
	err = m.each(ctx, func(ctx context.Context, i int) error { return unlocks[i](ctx) })
	acquired.Seconds += time.Since(released).Seconds()
	acquired.Heap = heap / float64(l.Locks)
	acquired.All = l.Locks
	return acquired, err
}

// each calls fn for the number of each lock, from as many goroutines as the load has.
func (m *measurement) each(ctx context.Context, fn func(ctx context.Context, number int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range m.load.Goroutines {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < m.load.Locks && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := fn(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// heapInUse returns how many bytes of the heap can be reached.
func heapInUse() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
