package locks

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/gocurator/curator/framework"
)

// listing is one list of the names in a folder. All acquisitions of a client that need a
// list of its age share it. Neither names nor sortings are changed once they are set.
type listing struct {
	number uint64          // 0 before it begins; guarded by the folder's mu until done
	link   context.Context // the connection over which it began
	done   chan struct{}   // closed with the answer
	names  []string
	err    error
	lost   bool // failed for a reason of the acquisition that sent it alone

	mu       sync.Mutex // guards the fields below
	first    sorting    // of the kind of lock that asked first; most folders have one kind
	sortings []*sorting // of the other kinds, one for each queue.orderKey
}

// sorting is the contenders of a listing in the order of one kind of lock.
type sorting struct {
	key orderKey

	mu         sync.Mutex // guards the fields below
	sorted     bool       // unset after a panic of the driver: the next caller sorts
	contenders []string
}

// of returns the contenders among the names of the list.
func (s *sorting) of(q *queue, names []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sorted {
		s.contenders = q.sorted(names)
		s.sorted = true
	}
	return s.contenders
}

// sorted returns the contenders in their order.
func (list *listing) sorted(q *queue) []string {
	list.mu.Lock()
	s := list.sortingLocked(q.orderKey)
	list.mu.Unlock()
	return s.of(q, list.names) // without the mutex of the list: this calls the driver
}

func (list *listing) sortingLocked(key orderKey) *sorting {
	if list.first.key == (orderKey{}) || list.first.key == key {
		list.first.key = key
		return &list.first
	}
	i := slices.IndexFunc(list.sortings, func(s *sorting) bool { return s.key == key })
	if i < 0 {
		i = len(list.sortings)
		list.sortings = append(list.sortings, &sorting{key: key})
	}
	return list.sortings[i]
}

// answers reports whether the list has at least this number and began over this
// connection. On another connection the watches that would report changes are gone.
func (list *listing) answers(link context.Context, number uint64) bool {
	return list != nil && list.number >= number && list.link == link && link.Err() == nil
}

// nextList returns the number of the first list that begins after this call.
func (f *folder) nextList() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun + 1
}

// begin returns a list that the caller is about to send.
func (f *folder) begin(client *framework.Framework) *listing {
	link := linkOf(client)
	f.mu.Lock()
	defer f.mu.Unlock()
	list := &f.firstList
	if list.number > 0 {
		list = new(listing)
	}
	f.begun++
	list.number, list.link = f.begun, link
	return list
}

// learn stores the answer to a list, unless a newer one is known.
func (f *folder) learn(list *listing, names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list.names = names
	f.learnLocked(list)
}

func (f *folder) learnLocked(list *listing) {
	if f.last != nil && f.last.number >= list.number {
		return
	}
	f.last = list
	if len(f.read) > 0 { // forget the data of contenders that have left
		kept := make(map[string]string)
		for _, name := range list.names {
			if data, found := f.read[name]; found {
				kept[name] = data
			}
		}
		f.read = kept
	}
}

// list returns when the newest list has this number or a greater one. It asks the server,
// or waits for another acquisition of the client to do so: any number of acquisitions can
// share a list that has not begun yet.
func (f *folder) list(ctx context.Context, q *queue, number uint64) error {
	for {
		list, leads := f.joinList(linkOf(q.client), number)
		if list == nil {
			return nil
		}
		if leads {
			f.ask(ctx, q, list)
		}
		select {
		case <-list.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		// If it failed for a reason of another acquisition alone, ask again.
		if list.err != nil && (leads || !list.lost) {
			return list.err
		}
	}
}

// joinList returns the list to wait for, or nil if the newest one will do, and whether the
// caller must ask for it.
func (f *folder) joinList(link context.Context, number uint64) (list *listing, leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.last.answers(link, number):
		return nil, false
	case f.asking != nil && (f.asking.number == 0 || f.asking.answers(link, number)):
		return f.asking, false // not sent yet, or sent late enough
	case f.asking != nil && f.next != nil:
		return f.next, false
	}
	list = &listing{done: make(chan struct{})}
	if f.asking == nil {
		f.asking = list
	} else {
		f.next = list
	}
	return list, true
}

// ask sends a list when the one before is answered and there is a connection. Until then
// other acquisitions may join it. They wait until it is answered, so it is, even when user
// code such as the retry policy panics.
func (f *folder) ask(ctx context.Context, q *queue, list *listing) {
	err := errAskerPanicked
	defer func() { f.answer(ctx, list, err) }()
	f.awaitTurn(ctx, list)
	err = f.request(ctx, q, list)
}

// errAskerPanicked is the error of a list whose request has panicked.
var errAskerPanicked = errors.New("locks: the request for a list has panicked")

// request asks for the names of a list, which then has a number.
func (f *folder) request(ctx context.Context, q *queue, list *listing) (err error) {
	if !q.client.State().IsConnected() {
		// A cheap request waits for the connection, as long as any verb does.
		if _, err := q.client.Exists(ctx, q.path); err != nil {
			return err
		}
	}
	link := linkOf(q.client)
	f.mu.Lock()
	f.begun++
	list.number, list.link = f.begun, link
	f.mu.Unlock()
	list.names, err = q.client.Children(ctx, q.path)
	if errors.Is(err, framework.ErrNoNode) {
		err = nodeGone(err)
	}
	return err
}

// answer ends the wait for a list, which has failed if err is not nil.
func (f *folder) answer(ctx context.Context, list *listing, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Acquisitions that share the list must know whether its failure is theirs too. A caller may
	// have bound its context to a session, with framework.InSession.
	list.err = err
	list.lost = ctx.Err() != nil || errors.Is(err, errAskerPanicked) ||
		errors.Is(err, framework.ErrSessionEnded) || errors.Is(err, framework.ErrSessionExpired) // by retry.SessionFailed
	if err == nil {
		f.learnLocked(list)
	}
	if f.asking == list {
		f.asking = nil
	} else { // gave up before its turn
		f.next = nil
	}
	close(list.done)
}

// awaitTurn waits until the list before is answered.
func (f *folder) awaitTurn(ctx context.Context, list *listing) {
	for {
		f.mu.Lock()
		before := f.asking
		if before == nil {
			f.asking, f.next = list, nil
		}
		f.mu.Unlock()
		if before == nil || before == list {
			return
		}
		select {
		case <-before.done:
		case <-ctx.Done():
			return
		}
	}
}
