package locks

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/gocurator/curator/framework"
)

// listing is one list of the names in a folder, and shared by all acquisitions of the
// client that it answers. Neither names nor what is sorted of them is ever changed.
type listing struct {
	number uint64          // 0 before it is begun; guarded by the folder's mu until done
	link   context.Context // the connection over which it was begun
	done   chan struct{}   // closed with the answer
	names  []string
	err    error
	lost   bool // the context of the acquisition that asked has ended

	mu       sync.Mutex
	sortings map[any]*sorting // by LockInternals.orderKey
}

// sorting is the contenders of a listing in the order of one kind of lock.
type sorting struct {
	once       sync.Once
	contenders []string
}

// sorted returns the contenders in their order.
func (a *listing) sorted(l *LockInternals) []string {
	a.mu.Lock()
	s := a.sortings[l.orderKey]
	if s == nil {
		s = new(sorting)
		if a.sortings == nil {
			a.sortings = make(map[any]*sorting)
		}
		a.sortings[l.orderKey] = s
	}
	a.mu.Unlock()
	s.once.Do(func() { s.contenders = l.sorted(slices.Clone(a.names), l.driver.Contends) })
	return s.contenders
}

// answers reports whether the list is no older than the one with that number and was
// begun over this connection: watches go with a connection, and with them the news.
func (a *listing) answers(link context.Context, number uint64) bool {
	return a != nil && a.number >= number && a.link == link && link.Err() == nil
}

// question returns the number of the first list that is newer than this moment.
func (f *folder) question() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun + 1
}

// begin returns a list that is about to be sent.
func (f *folder) begin(client *framework.Framework) *listing {
	a := &listing{link: linkOf(client)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun++
	a.number = f.begun
	return a
}

// learn takes over the answer to a list.
func (f *folder) learn(a *listing, names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.names = names
	f.learnLocked(a)
}

func (f *folder) learnLocked(a *listing) {
	if f.last != nil && f.last.number >= a.number {
		return
	}
	f.last = a
	if len(f.read) > 0 {
		kept := make(map[string]string)
		for _, name := range a.names {
			if data, found := f.read[name]; found {
				kept[name] = data
			}
		}
		f.read = kept
	}
}

// list sees to it that the newest list has this number or a greater one. It asks the
// server, or waits for another acquisition of the client to do so: a list that has not
// been begun is newer than the question of all who wait for it.
func (f *folder) list(ctx context.Context, l *LockInternals, number uint64) error {
	for {
		a, leads := f.joinList(linkOf(l.client), number)
		if a == nil {
			return nil
		}
		if leads {
			f.ask(ctx, l, a)
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		// The end of another acquisition's context is no answer to ours.
		if a.err != nil && (leads || !a.lost) {
			return a.err
		}
	}
}

// joinList returns the list to wait for, nil if there is an answer already, and
// whether the caller has to ask.
func (f *folder) joinList(link context.Context, number uint64) (a *listing, leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.last.answers(link, number):
		return nil, false
	case f.asking != nil && (f.asking.number == 0 || f.asking.answers(link, number)):
		return f.asking, false
	case f.asking != nil && f.next != nil:
		return f.next, false
	}
	a = &listing{done: make(chan struct{})}
	if f.asking == nil {
		f.asking = a
	} else {
		f.next = a
	}
	return a, true
}

// ask asks the server for a list, when the one before is answered and there is a
// connection. Until then others may still join in.
func (f *folder) ask(ctx context.Context, l *LockInternals, a *listing) {
	f.awaitTurn(ctx, a)
	var err error
	if !l.client.State().IsConnected() {
		_, err = l.client.Exists(ctx, l.path) // waits for a connection, and no longer than a verb does
	}
	if err == nil {
		link := linkOf(l.client)
		f.mu.Lock()
		f.begun++
		a.number, a.link = f.begun, link
		f.mu.Unlock()
		a.names, err = l.client.Children(ctx, l.path)
	}
	if errors.Is(err, framework.ErrNoNode) {
		err = nodeGone(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a.err, a.lost = err, ctx.Err() != nil
	if err == nil {
		f.learnLocked(a)
	}
	if f.asking == a {
		f.asking = nil
	} else { // it has given up before its turn
		f.next = nil
	}
	close(a.done)
}

// awaitTurn waits for the answer to the list before.
func (f *folder) awaitTurn(ctx context.Context, a *listing) {
	for {
		f.mu.Lock()
		before := f.asking
		if before == nil {
			f.asking, f.next = a, nil
		}
		f.mu.Unlock()
		if before == nil || before == a {
			return
		}
		select {
		case <-before.done:
		case <-ctx.Done():
			return
		}
	}
}
