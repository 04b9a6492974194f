package cache

import (
	"sync"

	"github.com/gocurator/curator/framework"
)

// message is news for the engine: an event, a gap in the events, or a call of Fresh.
type message struct {
	path    string
	work    work
	resync  bool
	reached chan struct{} // closed when all that came before this message is in the picture
}

// inbox is what the engine has not dealt with yet. Adding never blocks.
type inbox struct {
	wake chan struct{} // has room for one

	mu       sync.Mutex
	messages []message
	watch    *framework.PersistentWatch // that feeds the inbox; nil for none
}

func (i *inbox) add(m message) {
	i.mu.Lock()
	i.messages = append(i.messages, m)
	i.mu.Unlock()
	select {
	case i.wake <- struct{}{}:
	default:
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

func (i *inbox) current() *framework.PersistentWatch {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.watch
}
