package cache

import (
	"iter"
	"sync"
)

// CuratorCacheStorage keeps the picture of one cache. The cache calls Put and Remove from one
// goroutine at a time and holds no lock then. All other methods must be safe for concurrent
// use. The cache logs and survives a panic of Put and Remove.
type CuratorCacheStorage interface {
	// Put stores the data of a path and returns the data that it replaces, or nil.
	Put(data *ChildData) (old *ChildData)

	// Remove removes a path and returns its data, or nil.
	Remove(path string) (old *ChildData)

	// Get returns the data of a path, and reports whether the path is stored.
	Get(path string) (data *ChildData, found bool)

	// Size returns the number of paths.
	Size() int

	// Stream iterates over the data of all paths as it is when the loop begins.
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

// NewStorageWithoutData returns a storage in memory that keeps paths and Stats only, for large
// trees whose data is not needed. The New field of an [Event] has the data; the Old field has
// none. It is Curator's dataNotCached().
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

// snapshot copies the pointers. A ChildData never changes.
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
