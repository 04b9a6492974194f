package locks

import (
	"context"
	"reflect"
	"slices"

	"github.com/gocurator/curator/framework"
)

// orderKey tells those apart who sort the names in a folder, and draw conclusions from
// the end of one, in different ways.
type orderKey struct {
	driver LockInternalsDriver
	fixed  bool
}

func (l *LockInternals) newOrderKey() any {
	if !reflect.ValueOf(l.driver).Comparable() {
		return l // it shares with no other
	}
	_, fixed := l.maxLeases.(FixedLeases)
	return orderKey{l.driver, fixed}
}

// order is what one client knows of a queue that shrinks: the contenders of the newest
// list, less those known to have gone since. While no contender can come to stand before
// another (see [ShrinkingQueue]) all that one has to wait for are among them. So if the
// driver lets it in by them, it would by a new list.
type order struct {
	shrinking ShrinkingQueue
	marks     bool // the driver is a MarkingQueue
	local     bool // the word of a member that it has let go counts

	// Guarded by the folder's mu. live is never changed in place.
	number uint64            // of the list that live is from
	live   []string          // in the order of the queue
	gone   map[string]uint64 // left out of live, and how many lists had been begun by then
	stale  bool              // one in the middle has gone: those before it may have, unnoticed
}

func (l *LockInternals) newOrder(shrinking ShrinkingQueue) *order {
	_, fixed := l.maxLeases.(FixedLeases)
	marking, ok := l.driver.(MarkingQueue)
	marks := ok && marking.Marks()
	// A maximum that may change is to be heard of first: what the server tells comes in order.
	return &order{shrinking: shrinking, marks: marks, local: fixed, gone: make(map[string]uint64)}
}

// hears reports whether the word of a member that it has let go proves that its place
// is free.
func (o *order) hears(name string) bool { return o.local && (o.marks || o.shrinking.Shrinks(name)) }

// drop takes a member that lets go out of what is known.
func (f *folder) drop(m *member) {
	if m.unproven.Load() {
		return
	}
	f.mu.Lock()
	orders := make([]*order, 0, len(f.orders))
	for _, o := range f.orders {
		orders = append(orders, o)
	}
	f.mu.Unlock()
	for _, o := range orders {
		if o.hears(m.name) {
			f.remove(o, m.name)
		}
	}
}

// remove takes a contender out of what is known.
func (f *folder) remove(o *order, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch i := slices.Index(o.live, name); {
	case i < 0:
		return
	case i == 0:
		o.live = o.live[1:]
	default:
		o.live = slices.Concat(o.live[:i], o.live[i+1:])
		o.stale = true
	}
	o.gone[name] = f.begun
}

// queue returns the contenders by the newest list, less those known to have gone, if that
// list answers the question for the number. They must not be changed.
func (f *folder) queue(l *LockInternals, number uint64) (contenders []string, known bool) {
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	if !last.answers(linkOf(l.client), number) {
		return nil, false
	}
	return f.contendersBy(l, last), true
}

// linkOf returns a context that ends with the connection, and is another for each.
func linkOf(client *framework.Framework) context.Context {
	if session := client.Session(); session != nil {
		return session.Context(framework.StandardErrorPolicy)
	}
	return context.Background()
}

// lastKnown returns the contenders by the newest list, whatever has happened since.
func (f *folder) lastKnown(l *LockInternals) []string {
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	if last == nil {
		return nil
	}
	return f.contendersBy(l, last)
}

func (f *folder) contendersBy(l *LockInternals, last *listing) []string {
	sorted := last.sorted(l)
	shrinking, ok := l.driver.(ShrinkingQueue)
	if !ok {
		return sorted
	}
	f.mu.Lock()
	o := f.orders[l.orderKey]
	if o == nil {
		o = l.newOrder(shrinking)
		f.orders[l.orderKey] = o
	}
	isNew := o.number < last.number
	var over []string
	if isNew {
		for name, m := range f.members {
			if m.hasLetGo() {
				over = append(over, name)
			}
		}
	}
	f.mu.Unlock()
	if isNew {
		over = slices.DeleteFunc(over, func(name string) bool { return !o.hears(name) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.number < last.number {
		o.takeInLocked(last.number, sorted, over)
	}
	return o.live
}

// takeInLocked makes a list what is known, less the contenders that have gone since it
// was begun and those of this process that have let go.
func (o *order) takeInLocked(number uint64, sorted, over []string) {
	for name, begun := range o.gone {
		if begun < number {
			delete(o.gone, name) // the list is newer
		}
	}
	for _, name := range over {
		o.gone[name] = number
	}
	o.number, o.live, o.stale = number, sorted, false
	if len(o.gone) > 0 {
		o.live = slices.DeleteFunc(slices.Clone(sorted), func(name string) bool { _, gone := o.gone[name]; return gone })
	}
}

// isStale reports whether contenders may have gone unnoticed.
func (f *folder) isStale(o *order) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return o.stale
}

func (f *folder) orderOf(l *LockInternals) *order {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.orders[l.orderKey]
}
