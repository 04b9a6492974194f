// SPDX-License-Identifier: Apache-2.0

package cache

import "slices"

// folder is the records of the children of one znode, in the order of their names. The records have their names, so
// the folder has none. A map would take three times the memory. A folder is mostly filled in order, see
// visitChildren. Otherwise a change moves the records behind it, 24 bytes for each.
type folder []record

func (f *folder) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(*f, name, func(r record, name string) int {
		switch own := r.name(); {
		case string(own) < name:
			return -1
		case string(own) > name:
			return 1
		default:
			return 0
		}
	})
}

// put stores the record of a name and returns the one that it replaces, or nil.
func (f *folder) put(name string, r record) (old record) {
	at, found := f.find(name)
	if found {
		old, (*f)[at] = (*f)[at], r
		return old
	}
	*f = slices.Insert(*f, at, r)
	return nil
}

// remove removes a name and returns its record, or nil.
func (f *folder) remove(name string) (old record) {
	at, found := f.find(name)
	if !found {
		return nil
	}
	old = (*f)[at]
	if *f = slices.Delete(*f, at, at+1); len(*f) < cap(*f)/4 {
		*f = slices.Clone(*f)
	}
	return old
}
