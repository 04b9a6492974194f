package line

import (
	"context"
	"slices"
	"sync"
)

// lists are the lists that the places of a line share. One is under way at a time.
type lists struct {
	sent   *list // has not been answered
	next   *list // has not been sent
	asking bool
}

// list is one list of the names in the folder.
type list struct {
	done  chan struct{} // closed with the answer
	names []string
	err   error

	began  uint64 // tick
	folder uint64 // as of then

	mu      sync.Mutex // guards the fields below
	learned bool       // unset after a panic of the sorter: the next caller learns it
	fresh   bool       // of the folder that is known
	sorted  []string
}

// List returns the contenders of a list that was sent after a tick, in order. Calls share a
// list that is late enough for them. ready waits until it can be sent, and ask sends it, on a goroutine that
// belongs to none of the callers. They must not panic.
func (l *Line) List(ctx context.Context, after uint64, ready func(), ask func() ([]string, error)) ([]string, error) {
	for {
		next := l.join(after, ready, ask)
		select {
		case <-next.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if next.err != nil {
			return nil, next.err
		}
		if sorted, fresh := l.take(next); fresh {
			return sorted, nil
		}
	}
}

// join returns a list that is sent after a tick, and has not been answered.
func (l *Line) join(after uint64, ready func(), ask func() ([]string, error)) *list {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent := l.lists.sent; sent != nil && sent.began > after && sent.folder == l.folder {
		return sent
	}
	if l.lists.next == nil {
		l.lists.next = &list{done: make(chan struct{})}
	}
	if !l.lists.asking {
		l.lists.asking = true
		go l.send(ready, ask)
	}
	return l.lists.next
}

// send sends lists one after the other, until no caller needs one.
func (l *Line) send(ready func(), ask func() ([]string, error)) {
	for {
		ready()
		l.mu.Lock()
		next := l.lists.next
		l.lists.next = nil
		if next == nil {
			l.lists.asking = false
			l.mu.Unlock()
			return
		}
		l.ticks++
		next.began, next.folder, l.lists.sent = l.ticks, l.folder, next
		l.mu.Unlock()
		next.names, next.err = ask()
		l.mu.Lock()
		l.lists.sent = nil
		l.mu.Unlock()
		close(next.done)
	}
}

// take learns a list, unless another caller has. It reports false if the list may be of a
// folder that is gone.
func (l *Line) take(answer *list) (sorted []string, fresh bool) {
	answer.mu.Lock()
	defer answer.mu.Unlock()
	if answer.learned {
		return answer.sorted, answer.fresh
	}
	answer.sorted = l.sorted(answer.names)
	l.mu.Lock()
	defer l.mu.Unlock()
	answer.fresh = answer.folder == l.folder || l.evidence.name != "" && l.contains(answer.sorted, l.evidence.name)
	if answer.fresh {
		l.learn(answer.sorted, answer.began)
		l.settle()
	}
	answer.learned = true
	return answer.sorted, answer.fresh
}

// sorted returns the contenders among names, in order. It may return names itself.
func (l *Line) sorted(names []string) []string {
	if len(names) == 1 && l.sorter.Contends(names[0]) {
		return names
	}
	contenders := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !l.sorter.Contends(name) })
	slices.SortFunc(contenders, l.sorter.Compare)
	return contenders
}

func (l *Line) contains(sorted []string, name string) bool {
	_, found := slices.BinarySearchFunc(sorted, name, l.sorter.Compare)
	return found
}

// learn replaces what is known by a list that began at a tick.
func (l *Line) learn(listed []string, began uint64) {
	last := ""
	if n := len(listed); n > 0 {
		last = listed[n-1]
	}
	own := slices.DeleteFunc(slices.Clone(l.own), func(p *Place) bool { return l.isGone(p, listed, last, began) })
	if len(own) < len(l.own) {
		l.evidence = evidence{} // the folder may have gone with the node
		l.folder++
	}
	names := make([]string, 0, len(listed))
	for _, name := range listed {
		if l.mayExist(name) {
			names = append(names, name)
		}
	}
	for _, name := range l.names {
		if _, ours := l.find(name); !ours && last != "" && l.sorter.Compare(name, last) > 0 {
			names = append(names, name) // a newer list has shown it
		}
	}
	for _, p := range own {
		if i, found := slices.BinarySearchFunc(names, p.name, l.sorter.Compare); !found {
			names = slices.Insert(names, i, p.name)
		}
	}
	l.own, l.names, l.unproven = own, names, false
	if last != "" && (l.horizon == "" || l.sorter.Compare(last, l.horizon) >= 0) {
		l.horizon, l.unsure = last, 0
	}
	l.unsure = min(l.unsure, len(l.names))
	for name := range l.data {
		if !l.contains(l.names, name) {
			delete(l.data, name)
		}
	}
}

// isGone reports whether a list shows that the node of a place does not exist.
func (l *Line) isGone(p *Place, listed []string, last string, began uint64) bool {
	if l.contains(listed, p.name) {
		return false
	}
	// A list that has a later node was sent after the creation of this one.
	return p.joined < began || !p.moved && last != "" && l.sorter.Compare(p.name, last) < 0
}

// mayExist reports whether a name of a list may still exist. One up to the horizon that is
// not known has left since the list was sent.
func (l *Line) mayExist(name string) bool {
	if l.horizon == "" || l.unproven || l.sorter.Compare(name, l.horizon) > 0 || l.contains(l.names, name) {
		return true
	}
	reuser, ok := l.sorter.(Reuser)
	return ok && reuser.Reuses(name)
}
