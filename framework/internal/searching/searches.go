// SPDX-License-Identifier: Apache-2.0

// Package searching shares the lists of a folder among all calls that look for their znodes
// at the same time. A lost connection leaves many creates in doubt at once, and one list
// has the names for all of them.
package searching

import "sync"

// Searches holds the searches of a client that are under way.
type Searches struct {
	start func(run func()) bool

	mu      sync.Mutex
	folders map[string]*Search // the next of each folder, by path at the server, while one is under way; nil for none
}

// List returns the names in a folder by what callers look for.
type List func() (names map[string]string, err error)

// Search is one list of a folder.
type Search struct {
	done  chan struct{} // closed when names or err is set
	names map[string]string
	err   error
}

// New returns a Searches that runs goroutines with start, which returns false once the
// client is closed.
func New(start func(run func()) bool) *Searches {
	return &Searches{start: start, folders: make(map[string]*Search)}
}

// Done is closed when the search has ended.
func (s *Search) Done() <-chan struct{} { return s.done }

// Find returns the name that was looked for, "" when there is none. The search must have
// ended.
func (s *Search) Find(what string) (name string, err error) { return s.names[what], s.err }

// Join returns a search of the folder that has not been sent yet, or nil when the client is
// closed. All searches of a folder that overlap use the first one's list.
func (s *Searches) Join(path string, list List) *Search {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The search under way may be older than the create of a call that joins, so the next one counts.
	next, isUnderWay := s.folders[path]
	if next == nil {
		if !isUnderWay && !s.start(func() { s.run(path, list) }) {
			return nil
		}
		next = &Search{done: make(chan struct{})}
		s.folders[path] = next
	}
	return next
}

// run makes the searches of one folder, one after the other, until no call needs one.
func (s *Searches) run(path string, list List) {
	for {
		s.mu.Lock()
		next := s.folders[path]
		s.folders[path] = nil
		if next == nil {
			delete(s.folders, path)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		next.names, next.err = list()
		close(next.done)
	}
}
