// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"sync"
)

// CuratorCacheStorage keeps the picture of one cache. The cache calls Put and Remove from one
// goroutine at a time. All other methods must be safe for concurrent use. The cache logs and
// survives a panic of Put and Remove. No method may call methods of the cache that wait for it:
// Close, ByIndex, and Listen with [WithReplay].
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
	if f.used == 0 {
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
		return f.get(name)
	}
	return nil
}

func (s *standardStorage) Size() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.size
}

// listing is records of one folder.
type listing struct {
	folder  string
	records []record
}

func (s *standardStorage) Stream() iter.Seq[*ChildData] {
	return func(yield func(*ChildData) bool) {
		for _, l := range s.snapshot() {
			for _, r := range l.records {
				if !yield(s.childData(l.folder+string(r.name()), r)) {
					return
				}
			}
		}
	}
}

// snapshot copies the tables. A record never changes.
func (s *standardStorage) snapshot() []listing {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]listing, 0, len(s.folders))
	records := make([]record, 0, s.size)
	for path, f := range s.folders {
		begin := len(records)
		records = f.appendRecords(records)
		all = append(all, listing{path, records[begin:]})
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
	all := make([]string, 0, len(s.folders))
	for path := range s.folders {
		all = append(all, path)
	}
	return all
}

// names returns the names of the children of a folder.
func (s *standardStorage) names(parent string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := s.folders[parent]
	if f == nil {
		return nil
	}
	names := make([]string, 0, f.used)
	for _, r := range f.appendRecords(make([]record, 0, f.used)) {
		names = append(names, string(r.name()))
	}
	return names
}

// children returns the records of the children of a folder. The root of the tree is stored as a
// child of itself, without a name.
func (s *standardStorage) children(parent string) []record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f := s.folders[parent]
	if f == nil {
		return nil
	}
	records := f.appendRecords(make([]record, 0, f.used))
	return slices.DeleteFunc(records, func(r record) bool { return len(r.name()) == 0 })
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
