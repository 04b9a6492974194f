// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime/metrics"
	"syscall"
	"time"
)

// cost is what this process has used since it began, the peer and the measuring of it
// together.
type cost struct {
	cpu     time.Duration // of all threads, in user space and in the kernel
	objects uint64        // allocated on the heap
}

func costSoFar() cost {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // fails for bad arguments only
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(sample)
	return cost{
		cpu:     time.Duration(used.Utime.Nano() + used.Stime.Nano()),
		objects: sample[0].Value.Uint64(),
	}
}

// warm is the end of the warm-up.
type warm struct {
	at   time.Time
	cost cost
}

// spent sets what each turn since then has cost this process.
func (r *result) spent(since *warm) {
	now := costSoFar()
	if turns := float64(r.Turns); turns > 0 {
		r.CPU = microseconds(now.cpu-since.cost.cpu) / turns
		r.Allocs = float64(now.objects-since.cost.objects) / turns
	}
}
