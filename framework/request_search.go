package framework

import (
	"context"
	"fmt"
	"sync"

	"github.com/gocurator/curator/framework/internal/wire"
)

// searches shares the lists of a folder among all calls that look for their znodes at the
// same time: a lost connection leaves many creates in doubt at once, and one list has the
// names for all of them.
type searches struct {
	mu      sync.Mutex
	folders map[string]*folderSearches // by path at the server, while one is under way
}

// folderSearches are the searches of one folder. A search under way may have been sent
// before a later create, which therefore needs the next one.
type folderSearches struct{ next *search }

// search is one sync and list of a folder.
type search struct {
	done  chan struct{} // closed when names or err is set
	names map[string]string
	err   error
}

func newSearches() *searches { return &searches{folders: make(map[string]*folderSearches)} }

// findProtected returns the path of the child with this prefix, "" when there is
// none.
func (f *Framework) findProtected(ctx context.Context, parent, prefix string) (string, error) {
	s, err := f.searches.join(f, parent)
	if err != nil {
		return "", err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return "", interrupted(ctx)
	}
	name, found := s.names[prefix]
	if s.err != nil || !found {
		return "", s.err
	}
	return JoinPath(parent, name), nil
}

// join returns a search of the folder that has not been sent yet.
func (s *searches) join(f *Framework, parent string) (*search, error) {
	full := f.root.full(parent)
	s.mu.Lock()
	defer s.mu.Unlock()
	folder := s.folders[full]
	if folder != nil {
		// The search under way may be older than the create, so the next one counts.
		if folder.next == nil {
			folder.next = newSearch()
		}
		return folder.next, nil
	}
	first := newSearch()
	folder = &folderSearches{next: first}
	if !f.background.start(func() { s.run(f, full, parent, folder) }) {
		return nil, ErrClosed
	}
	s.folders[full] = folder
	return first, nil
}

func newSearch() *search { return &search{done: make(chan struct{})} }

// run makes the searches of one folder, one after the other, until no call needs one.
func (s *searches) run(f *Framework, full, parent string, folder *folderSearches) {
	for {
		s.mu.Lock()
		next := folder.next
		folder.next = nil
		if next == nil {
			delete(s.folders, full)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		next.names, next.err = f.protectedNames(parent)
		close(next.done)
	}
}

// protectedNames returns the protected names in a folder by their prefixes. A sync goes
// first in the same write: this server may not yet have applied what another has accepted.
func (f *Framework) protectedNames(parent string) (map[string]string, error) {
	sync, err := f.pathCall(opSync, parent, nil)
	if err != nil {
		return nil, err
	}
	var names []string
	list, err := ReadChildren(parent, nil).build(f)
	if err != nil {
		return nil, err
	}
	list.refused = answeringNoNode(func() {})
	list.decode = func(d *wire.Decoder) error { names = d.Strings(); return nil }
	// In the client's context: the search serves more callers than the one that began it.
	if err := f.exchange(f.ctx, append(sync, list)...); isReply(err, ErrNoAuth) {
		return nil, fmt.Errorf("%w: %w", errUnsearchable, err)
	} else if err != nil {
		return nil, err
	}
	byPrefix := make(map[string]string)
	for _, name := range names {
		if IsProtectedName(name) {
			byPrefix[name[:protectedPrefixLen]] = name
		}
	}
	return byPrefix, nil
}
