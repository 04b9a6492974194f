// SPDX-License-Identifier: Apache-2.0

package listen_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/gocurator/curator/listen"
)

// BenchmarkNotify measures one Notify with its deliveries, in bursts of up to 64 values. The alternative that it is compared with
// starts a goroutine per call: it keeps no order, and calls listeners concurrently with themselves.
func BenchmarkNotify(b *testing.B) {
	const burst = 64
	for _, listeners := range []int{1, 16, 256} {
		fn := func(int) {}
		b.Run(fmt.Sprintf("set/listeners=%d", listeners), func(b *testing.B) {
			var set listen.Set[int]
			for range listeners {
				set.Add(fn)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				set.Notify(n)
				if n++; n%burst == 0 {
					flush(b, &set)
				}
			}
			flush(b, &set)
		})
		b.Run(fmt.Sprintf("goroutines/listeners=%d", listeners), func(b *testing.B) {
			var calls sync.WaitGroup
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				v := n
				for range listeners {
					calls.Go(func() { fn(v) })
				}
				if n++; n%burst == 0 {
					calls.Wait()
				}
			}
			calls.Wait()
		})
	}
}

// BenchmarkAddRemove measures a listener that comes and goes among many others.
func BenchmarkAddRemove(b *testing.B) {
	var set listen.Set[int]
	for range 10_000 {
		set.Add(func(int) {})
	}
	b.ReportAllocs()
	for b.Loop() {
		set.Add(func(int) {}).Remove()
	}
}
