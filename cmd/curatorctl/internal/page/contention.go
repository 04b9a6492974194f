// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
)

const (
	firstFigures = 10 * time.Second // after the first viewer
	figuresEvery = time.Minute
	followFor    = time.Minute // after the last viewer
	maxLoads     = 20          // locks with contention that are shown
)

// contention is what the locks below the path of the page have to bear. All viewers share one [inspect.Traffic], which
// goes on while there are viewers, and a while longer.
type contention struct {
	mu     sync.Mutex
	under  bool      // the locks are followed, or will be
	begun  time.Time // the last attempt
	wanted time.Time // when a viewer was there last
	of     *inspect.Traffic
	figures
	news int // how often what is shown has changed
}

// figures are what a viewer sees of it.
type figures struct {
	inspect.Contention           // the last figures, of the locks with the most waiters
	More               int       // locks with contention that are left out
	Since              time.Time // when the following began, zero before
	Err                error     // why there is none
}

// shown returns what is known, and has the locks followed.
func (c *contention) shown(h *handler) figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = time.Now()
	if !c.under && c.wanted.Sub(c.begun) >= firstFigures { // it may have failed
		c.under, c.begun = true, c.wanted
		go c.follow(h)
	}
	return c.figures
}

// version changes with what is shown. A viewer who asks wants more of it.
func (c *contention) version() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = time.Now()
	return c.news
}

// turns returns the last minute of a lock, and since when it is known: zero if it is not.
func (c *contention) turns(lock string) ([]inspect.Turn, time.Time) {
	c.mu.Lock()
	of, since := c.of, c.Since
	c.mu.Unlock()
	if of == nil {
		return nil, time.Time{}
	}
	return of.Turns(lock), since
}

func (c *contention) follow(h *handler) {
	ctx, cancel := context.WithTimeout(context.Background(), readLimit)
	defer cancel()
	of, err := inspect.Follow(ctx, h.client, h.path, inspect.WithMemoryLimit(walkLimit))
	c.mu.Lock()
	c.news++
	if c.figures = (figures{Err: err}); err == nil {
		c.of, c.Since = of, time.Now()
	}
	c.under = err == nil
	c.mu.Unlock()
	if err != nil {
		return
	}
	defer of.Close()
	for wait := firstFigures; ; wait = figuresEvery {
		isClosed := false
		select {
		case <-time.After(wait):
		case <-h.client.Done():
			isClosed = true
		}
		if !c.take(isClosed) {
			return
		}
	}
}

// take takes new figures, and reports whether there will be more.
func (c *contention) take(isClosed bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !isClosed && time.Since(c.wanted) <= followFor {
		found, before := c.of.Take(), len(c.Locks)
		all := slices.DeleteFunc(found.Locks, func(l inspect.Load) bool { return l.Most == 0 && l.Losses == 0 })
		found.Locks = slices.Clone(all[:min(len(all), maxLoads)]) // the others need no memory
		if c.From.IsZero() || before+len(all) > 0 {
			c.news++
		}
		c.Contention, c.More = found, len(all)-len(found.Locks)
		return true
	}
	c.of, c.figures, c.under, c.begun = nil, figures{}, false, time.Time{}
	return false
}
