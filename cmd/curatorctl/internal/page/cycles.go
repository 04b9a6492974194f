// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"sync"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
)

const (
	cyclesEvery = 10 * time.Second // at least between two searches
	maxCycles   = 20               // that are shown
)

// cycles are the clients below the path of the page that wait for each other. They are searched for after a viewer has seen
// the list, in the background, as a suspicion takes five seconds to prove.
type cycles struct {
	mu    sync.Mutex
	under bool      // a search is under way, or will be
	again bool      // a viewer has come since it began
	begun time.Time // of the last search
	found []inspect.Deadlock
	news  int // how often what is found has changed
}

// shown returns what is known, and has a search follow.
func (c *cycles) shown(h *handler) []inspect.Deadlock {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.under {
		c.again = true
	} else {
		c.beginLocked(h)
	}
	return c.found
}

func (c *cycles) beginLocked(h *handler) {
	c.under = true
	time.AfterFunc(time.Until(c.begun.Add(cyclesEvery)), func() { c.search(h) })
}

func (c *cycles) search(h *handler) {
	c.mu.Lock()
	c.begun, c.again = time.Now(), false
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	found, err := inspect.Deadlocks(ctx, h.client, h.path, inspect.WithMemoryLimit(walkLimit))
	c.mu.Lock()
	defer c.mu.Unlock()
	found = found[:min(len(found), maxCycles)]
	if len(found) != len(c.found) {
		c.news++
	}
	c.found, c.under = found, false // without an answer the picture is out of date, too
	if c.again && err == nil {
		c.beginLocked(h)
	}
}

// version changes with what is shown.
func (c *cycles) version() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.news
}
