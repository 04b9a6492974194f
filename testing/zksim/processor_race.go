// SPDX-License-Identifier: Apache-2.0

//go:build race

package zksim

import (
	"runtime"
	"sync"
)

var bubbles struct {
	sync.Mutex

	playing    int
	processors int // before the first of them
}

// oneProcessor has the program run on one processor until release is called, also for others that play at the same time. Go's race
// detector crashes now and then when two threads run timers of one bubble: https://go.dev/issue/78156.
func oneProcessor() (release func()) {
	bubbles.Lock()
	defer bubbles.Unlock()
	if bubbles.playing++; bubbles.playing == 1 {
		bubbles.processors = runtime.GOMAXPROCS(1)
	}
	return func() {
		bubbles.Lock()
		defer bubbles.Unlock()
		if bubbles.playing--; bubbles.playing == 0 {
			runtime.GOMAXPROCS(bubbles.processors)
		}
	}
}
