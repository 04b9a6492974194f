// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"hash/maphash"
	"slices"
)

// folder is the records of the children of one znode by name: a hash table with linear probing.
// The records have their names, so the table does not, and it grows by an eighth. A map would
// take three times the memory.
type folder struct {
	hashes  []uint32 // of the names; 0 is a free place
	records []record
	used    int
}

var seed = maphash.MakeSeed()

// hashOf returns the hash of a name, which is never 0.
func hashOf(name string) uint32 { return uint32(maphash.String(seed, name)) | 1 }

// home returns the place where the search for a hash begins.
func (f *folder) home(hash uint32) int { return int(uint64(hash) * uint64(len(f.hashes)) >> 32) }

// next returns the place after another.
func (f *folder) next(at int) int {
	if at++; at == len(f.hashes) {
		return 0
	}
	return at
}

// find returns the place of a name, and reports whether there is one.
func (f *folder) find(name string) (at int, found bool) {
	if f.used == 0 {
		return 0, false
	}
	hash := hashOf(name)
	for at = f.home(hash); f.hashes[at] != 0; at = f.next(at) {
		if f.hashes[at] == hash && string(f.records[at].name()) == name {
			return at, true
		}
	}
	return 0, false
}

// get returns the record of a name, or nil.
func (f *folder) get(name string) record {
	if at, found := f.find(name); found {
		return f.records[at]
	}
	return nil
}

// put stores the record of a name and returns the one that it replaces, or nil.
func (f *folder) put(name string, r record) (old record) {
	if at, found := f.find(name); found {
		old, f.records[at] = f.records[at], r
		return old
	}
	if f.used >= len(f.hashes)-len(f.hashes)/8-1 { // at least one place stays free, which ends a search
		f.resize(len(f.hashes) + len(f.hashes)/8 + 2)
	}
	f.place(hashOf(name), r)
	f.used++
	return nil
}

// place stores a record whose name is not there.
func (f *folder) place(hash uint32, r record) {
	at := f.home(hash)
	for f.hashes[at] != 0 {
		at = f.next(at)
	}
	f.hashes[at], f.records[at] = hash, r
}

// remove removes a name and returns its record, or nil.
func (f *folder) remove(name string) (old record) {
	at, found := f.find(name)
	if !found {
		return nil
	}
	old = f.take(at)
	f.used--
	if f.used < len(f.hashes)/4 {
		f.resize(f.used + f.used/4 + 2)
		return old
	}
	// Those behind it may be there because it was in their way.
	for at = f.next(at); f.hashes[at] != 0; at = f.next(at) {
		hash := f.hashes[at]
		f.place(hash, f.take(at))
	}
	return old
}

// take frees a place and returns its record.
func (f *folder) take(at int) record {
	r := f.records[at]
	f.hashes[at], f.records[at] = 0, nil
	return r
}

// resize moves all records to a table with at least so many places.
func (f *folder) resize(places int) {
	before := *f
	f.records = slices.Grow([]record(nil), places)
	f.records = f.records[:cap(f.records)] // the allocator rounds up, so use what it gives
	f.hashes = make([]uint32, len(f.records))
	for i, r := range before.records {
		if r != nil {
			f.place(before.hashes[i], r)
		}
	}
}

func (f *folder) appendRecords(to []record) []record {
	for _, r := range f.records {
		if r != nil {
			to = append(to, r)
		}
	}
	return to
}
