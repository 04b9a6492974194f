package locks

import (
	"context"
	"slices"

	"github.com/gocurator/curator/framework"
)

// order is what one client knows of a shrinking queue: the contenders of the newest list,
// without those that have left since. As no newcomer can stand before a contender (see
// [ShrinkingQueue]), every contender that an acquisition must wait for is in it. So a
// driver that lets the acquisition in by this knowledge would do so by a new list.
type order struct {
	key       orderKey // of the queue
	shrinking ShrinkingQueue
	marks     bool // the driver is a MarkingQueue
	local     bool // in-process releases count

	// Guarded by the folder's mu. live is never changed in place.
	number uint64            // of the list that live is from
	live   []string          // in the order of the queue
	gone   map[string]uint64 // removed from live, with the number of lists begun by then
	unsure int               // how many of live, from its beginning, may have left unnoticed
}

func (q *queue) newOrder(shrinking ShrinkingQueue) order {
	_, fixed := q.maxLeases.(FixedLeases)
	marking, ok := q.driver.(MarkingQueue)
	marks := ok && marking.Marks()
	// If the maximum may change, only the server's events count: they come in order with
	// the news of another maximum.
	return order{key: q.orderKey, shrinking: shrinking, marks: marks, local: fixed}
}

// hears reports whether an in-process release of a member with this name proves that its
// place is free.
func (o *order) hears(name string) bool { return o.local && (o.marks || o.shrinking.Shrinks(name)) }

// drop removes a member that lets go from what is known.
func (f *folder) drop(m *member) {
	if m.unproven.Load() {
		return
	}
	// hears calls the driver, so it must not run under the mutex.
	f.mu.Lock()
	var orders []*order
	if f.known != nil {
		orders = f.orders // which only grows
	}
	f.mu.Unlock()
	for _, o := range orders {
		if o.hears(m.name) {
			f.remove(o, m.name)
		}
	}
}

// remove removes a contender from what is known.
func (f *folder) remove(o *order, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, gone := o.gone[name]; gone {
		return // found without a search, as all its waiters report that it has left
	}
	switch i := slices.Index(o.live, name); {
	case i < 0:
		return
	case i == 0:
		o.live = o.live[1:]
		o.unsure = max(o.unsure-1, 0)
	default:
		// It was watched, the contenders before it perhaps not.
		o.live = slices.Concat(o.live[:i], o.live[i+1:])
		o.unsure = max(o.unsure-1, i)
	}
	// A list that was begun before may still bring the name back. In a long queue others will
	// look for it.
	if f.begun > o.number || len(o.live) > near {
		o.forgetLocked(name, f.begun)
	}
}

func (o *order) forgetLocked(name string, begun uint64) {
	if o.gone == nil {
		o.gone = make(map[string]uint64)
	}
	o.gone[name] = begun
}

// contenders returns the contenders of the newest list, without those that have left since,
// and the number of that list; or 0 if it is older than the given number. The caller must
// not change the contenders.
func (f *folder) contenders(q *queue, number uint64) (contenders []string, by uint64) {
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	if !last.answers(linkOf(q.client), number) {
		return nil, 0
	}
	return f.contendersBy(q, last), last.number
}

// linkOf returns a context that ends with the connection. Each connection has its own.
func linkOf(client *framework.Framework) context.Context {
	if session := client.Session(); session != nil {
		return session.Context(framework.StandardErrorPolicy)
	}
	return context.Background()
}

// lastKnown returns the contenders of the newest list, however old it is.
func (f *folder) lastKnown(q *queue) []string {
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	if last == nil {
		return nil
	}
	return f.contendersBy(q, last)
}

// contendersBy returns the contenders of a list in their order, without those that have
// left since.
func (f *folder) contendersBy(q *queue, last *listing) []string {
	sorted := last.sorted(q)
	shrinking, ok := q.driver.(ShrinkingQueue)
	if !ok {
		return sorted
	}
	f.mu.Lock()
	o := f.orderOfLocked(q)
	if o == nil {
		o = f.addOrderLocked(q.newOrder(shrinking))
	}
	isNew := o.number < last.number
	var over []string
	if isNew {
		for m := range f.members.all {
			if m.hasLetGo() {
				over = append(over, m.name)
			}
		}
	}
	f.mu.Unlock()
	if isNew { // without the mutex, as hears calls the driver
		over = slices.DeleteFunc(over, func(name string) bool { return !o.hears(name) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.number < last.number { // another goroutine may have been faster
		o.takeInLocked(last.number, sorted, over)
	}
	return o.live
}

// takeInLocked replaces what is known by a list, without the contenders that have left
// since it began and the acquisitions of this process that have let go.
func (o *order) takeInLocked(number uint64, sorted, over []string) {
	for name, begun := range o.gone {
		if begun < number {
			delete(o.gone, name) // the list is newer, and shows it
		}
	}
	for _, name := range over {
		o.forgetLocked(name, number)
	}
	o.number, o.live, o.unsure = number, sorted, 0
	if len(o.gone) > 0 {
		o.live = slices.DeleteFunc(slices.Clone(sorted), func(name string) bool { _, gone := o.gone[name]; return gone })
	}
}

// unsure returns the contenders that may have left unnoticed. The caller must not change them.
func (f *folder) unsure(o *order) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return o.live[:o.unsure:o.unsure]
}

// size returns how many contenders are known.
func (f *folder) size(o *order) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(o.live)
}

func (f *folder) orderOf(q *queue) *order {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.orderOfLocked(q)
}

// addOrderLocked keeps an order with the others.
func (f *folder) addOrderLocked(o order) *order {
	place := &f.first
	if len(f.orders) > 0 {
		place = new(order)
	} else {
		f.orders = f.ordersOfOne[:0]
	}
	*place = o
	f.orders = append(f.orders, place)
	return place
}

func (f *folder) orderOfLocked(q *queue) *order {
	for _, o := range f.orders {
		if o.key == q.orderKey {
			return o
		}
	}
	return nil
}
