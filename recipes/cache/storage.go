package cache

import (
	"iter"
	"sync"
)

// CuratorCacheStorage keeps the picture of one cache. Put and Remove are called by one
// goroutine at a time, with no lock held; the others may be called by any number of
// goroutines at once.
type CuratorCacheStorage interface {
	// Put stores the data of a path and returns what it replaces, nil for nothing.
	Put(data *ChildData) (old *ChildData)

	// Remove removes a path and returns what was there, nil for nothing.
	Remove(path string) (old *ChildData)

	// Get returns what is stored for a path.
	Get(path string) (data *ChildData, found bool)

	// Size returns how many paths are stored.
	Size() int

	// Stream iterates over all that was stored at the moment when the loop begins.
	Stream() iter.Seq[*ChildData]

	// Clear removes everything.
	Clear()
}

// standardStorage is a map.
type standardStorage struct {
	withoutData bool

	mu    sync.RWMutex
	nodes map[string]*ChildData
}

// NewStandardStorage returns a storage in memory, Curator's standard().
func NewStandardStorage() CuratorCacheStorage {
	return &standardStorage{nodes: make(map[string]*ChildData)}
}

// NewStorageWithoutData returns a storage in memory that keeps paths and stats only, for large
// trees of which the paths matter. Listeners are told the data of new states, and none of old
// ones. It is Curator's dataNotCached().
func NewStorageWithoutData() CuratorCacheStorage {
	return &standardStorage{withoutData: true, nodes: make(map[string]*ChildData)}
}

func (s *standardStorage) Put(data *ChildData) *ChildData {
	if s.withoutData {
		data = &ChildData{Path: data.Path, Stat: data.Stat}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.nodes[data.Path]
	s.nodes[data.Path] = data
	return old
}

func (s *standardStorage) Remove(path string) *ChildData {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.nodes[path]
	delete(s.nodes, path)
	return old
}

func (s *standardStorage) Get(path string) (*ChildData, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	data, found := s.nodes[path]
	return data, found
}

func (s *standardStorage) Size() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.nodes)
}

func (s *standardStorage) Stream() iter.Seq[*ChildData] {
	return func(yield func(*ChildData) bool) {
		for _, data := range s.snapshot() {
			if !yield(data) {
				return
			}
		}
	}
}

// snapshot copies the pointers: what they refer to never changes.
func (s *standardStorage) snapshot() []*ChildData {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*ChildData, 0, len(s.nodes))
	for _, data := range s.nodes {
		all = append(all, data)
	}
	return all
}

func (s *standardStorage) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes = make(map[string]*ChildData)
}
