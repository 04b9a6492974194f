// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// message is news for the engine: an event, a gap in the events, or a call of Fresh.
type message struct {
	path    string // that has changed
	resync  bool
	reached chan struct{} // closed when the picture has all that came before this message
}

// inbox is what the engine has not dealt with yet. Adding never blocks.
type inbox struct {
	wake chan struct{} // has room for one

	mu       sync.Mutex
	messages []message
	watch    *framework.PersistentWatch // that feeds the inbox; nil for none

	// When the oldest news came that the picture lacks, zero for none: of messages, of what the engine has taken, and of
	// what it waits for to be read. It waits for one part at a time, so that news that follow do not add up.
	came, taken, reading time.Time
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (i *inbox) add(m message) {
	i.mu.Lock()
	i.messages = append(i.messages, m)
	if m.reached == nil && i.came.IsZero() {
		i.came = time.Now()
	}
	i.mu.Unlock()
	attempt.Signal(i.wake)
}

// addEvent adds an event of the persistent watch.
func (i *inbox) addEvent(e framework.Event) {
	switch e.Type {
	case framework.EventResync:
		i.add(message{resync: true})
	case framework.EventNodeCreated, framework.EventNodeDataChanged, framework.EventNodeDeleted:
		i.add(message{path: e.Path})
	default: // new children have events of their own
	}
}

func (i *inbox) take() []message {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := i.messages
	i.messages = nil
	if i.taken.IsZero() {
		i.taken = i.came
	}
	i.came = time.Time{}
	return all
}

// heard notes news that came another way.
func (i *inbox) heard() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.taken.IsZero() {
		i.taken = time.Now()
	}
}

// beginReading reports whether there is news that was taken, which the engine then waits for.
func (i *inbox) beginReading() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reading, i.taken = i.taken, time.Time{}
	return !i.reading.IsZero()
}

// endReading notes that the picture has that news.
func (i *inbox) endReading() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.reading = time.Time{}
}

// lag returns how old the oldest news is that the picture lacks, 0 for none.
func (i *inbox) lag() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, since := range []time.Time{i.reading, i.taken, i.came} {
		if !since.IsZero() {
			return time.Since(since)
		}
	}
	return 0
}

func (i *inbox) feedFrom(watch *framework.PersistentWatch) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.watch = watch
}

func (i *inbox) feeder() *framework.PersistentWatch {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.watch
}
