// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync"

	"github.com/gocurator/curator/framework"
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
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (i *inbox) add(m message) {
	i.mu.Lock()
	i.messages = append(i.messages, m)
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
	}
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
	return all
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
