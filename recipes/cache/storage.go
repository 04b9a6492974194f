// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
)

// CuratorCacheStorage keeps the picture of one cache. The cache calls Put and Remove from one
// goroutine at a time. All other methods must be safe for concurrent use. The cache logs and
// survives a panic of Put and Remove. No method may call the
// cache's Close, which waits for it.
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

// standardStorage keeps records by folder, so that the path of a folder is in memory once.
type standardStorage struct {
	withoutData bool

	mu      sync.RWMutex
	folders map[string]*folder // that have children, by the path with a slash behind
	size    int
}

// NewStandardStorage returns a storage in memory, Curator's standard(). It keeps each znode in
// a compact form, and makes a ChildData with each call that returns one.
func NewStandardStorage() CuratorCacheStorage { return newStorage(false) }

// NewStorageWithoutData returns a storage in memory that keeps paths, Stats and a hash of the
// data only, for large trees whose data is not needed. The New field of an [Event] has the data; the Old field has
// none. It is Curator's dataNotCached().
func NewStorageWithoutData() CuratorCacheStorage { return newStorage(true) }

func newStorage(withoutData bool) *standardStorage {
	return &standardStorage{withoutData: withoutData, folders: make(map[string]*folder)}
}

// cut divides a path into its folder, with a slash behind, and its name.
func cut(path string) (parent, name string) {
	at := strings.LastIndexByte(path, '/') + 1
	return path[:at], path[at:]
}

func (s *standardStorage) Put(data *ChildData) *ChildData {
	stored := *data
	if s.withoutData {
		stored.Data = sum(data.Data)
	}
	parent, name := cut(data.Path)
	r := newRecord(name, &stored)

	s.mu.Lock()
	f := s.folders[parent]
	if f == nil {
		f = new(folder)
		s.folders[strings.Clone(parent)] = f // the path may be longer
	}
	old := f.put(name, r)
	if old == nil {
		s.size++
	}
	s.mu.Unlock()
	return s.childData(data.Path, old)
}

// childData returns the state in the form for callers, nil for no record.
func (s *standardStorage) childData(path string, r record) *ChildData {
	data := r.childData(path)
	if data != nil && s.withoutData {
		data.Data = nil
	}
	return data
}

var seed = maphash.MakeSeed()

// sum returns what a storage without data keeps of the data, to compare it.
func sum(data []byte) []byte { return binary.NativeEndian.AppendUint64(nil, maphash.Bytes(seed, data)) }

// hasContent reports whether a path is stored with this data and this owner.
func (s *standardStorage) hasContent(data *ChildData) bool {
	r := s.record(data.Path)
	if r == nil {
		return false
	}
	content := data.Data
	if s.withoutData {
		content = sum(content)
	}
	have, stored := r.read()
	return bytes.Equal(stored, content) && have.EphemeralOwner == data.Stat.EphemeralOwner
}

func (s *standardStorage) Remove(path string) *ChildData {
	parent, name := cut(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.folders[parent]
	if f == nil {
		return nil
	}
	old := f.remove(name)
	if old != nil {
		s.size--
	}
	if len(*f) == 0 {
		delete(s.folders, parent)
	}
	return s.childData(path, old)
}

func (s *standardStorage) Get(path string) (*ChildData, bool) {
	r := s.record(path)
	return s.childData(path, r), r != nil
}

// record returns the record of a path, or nil.
func (s *standardStorage) record(path string) record {
	parent, name := cut(path)
	s.mu.RLock()
	defer s.mu.RUnlock()
	if f := s.folders[parent]; f != nil {
		if at, found := f.find(name); found {
			return (*f)[at]
		}
	}
	return nil
}

func (s *standardStorage) Size() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.size
}

func (s *standardStorage) Stream() iter.Seq[*ChildData] {
	return func(yield func(*ChildData) bool) {
		for parent, records := range s.snapshot() {
			for _, r := range records {
				if !yield(s.childData(parent+string(r.name()), r)) {
					return
				}
			}
		}
	}
}

// snapshot copies the folders. A record never changes.
func (s *standardStorage) snapshot() map[string]folder {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make(map[string]folder, len(s.folders))
	for parent, f := range s.folders {
		all[parent] = slices.Clone(*f)
	}
	return all
}

func (s *standardStorage) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folders, s.size = make(map[string]*folder), 0
}

// parents returns the folders that have children, as cut returns them.
func (s *standardStorage) parents() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.folders))
}

// records returns the records of a folder. The root of the tree is in its own folder, without a name.
func (s *standardStorage) records(parent string) folder {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if f := s.folders[parent]; f != nil {
		return slices.Clone(*f)
	}
	return nil
}

func (s *standardStorage) isParent(path string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.folders[asParent(path)] != nil
}

// asParent returns a path as the folder of its children.
func asParent(path string) string {
	if strings.HasSuffix(path, "/") {
		return path
	}
	return path + "/"
}
