// SPDX-License-Identifier: Apache-2.0

package cache

// oversized remembers replies above the client's limit by path. Each has cost its transfer,
// so the same read is not made again. Data that cannot be decompressed is treated likewise.
type oversized map[string]*tooLarge

type tooLarge struct {
	list     bool
	children int32 // how many the list had; 0 until a Stat shows it
	data     bool
	of       int64 // the mzxid of such data; 0 until a Stat shows it
}

// add remembers a reply to a list, or one with data. It reports whether that is new.
func (o oversized) add(path string, isList bool) bool {
	if o[path] == nil {
		o[path] = new(tooLarge)
	}
	known := &o[path].data
	if isList {
		known = &o[path].list
	}
	isNew := !*known
	*known = true
	return isNew
}

// addData remembers data of this mzxid that cannot be kept for another reason.
func (o oversized) addData(path string, mzxid int64) {
	o.add(path, false)
	o[path].of = mzxid
}

// has reports whether anything is remembered of a path.
func (o oversized) has(path string) bool {
	return len(o) > 0 && o[path] != nil // the path is hashed only where there are any
}

// without returns work without the reads whose replies are too large. The Stat is compared
// instead of the data, as it shows when there is other data to try.
func (o oversized) without(w work, path string) work {
	if !o.has(path) {
		return w
	}
	if o[path].list {
		w &^= list
	}
	if o[path].data && w&readData != 0 {
		w = w&^readData | compare
	}
	return w
}

// isData reports whether the data with this mzxid is too large. Other data is worth a read.
func (o oversized) isData(path string, mzxid int64) bool {
	if !o.has(path) || !o[path].data {
		return false
	}
	large := o[path]
	if large.of == 0 {
		large.of = mzxid
	}
	if large.of == mzxid {
		return true
	}
	large.data, large.of = false, 0
	return false
}

// isList reports whether the list of children is too large. It is worth another try, which
// costs the transfer again, once a tenth of the children have left.
func (o oversized) isList(path string, children int32) bool {
	if !o.hasList(path) {
		return false
	}
	large := o[path]
	if large.children == 0 {
		large.children = max(children, 1)
	}
	if children > large.children-max(1, large.children/10) {
		return true
	}
	large.list, large.children = false, 0
	return false
}

// hasList reports whether a list is known that is too large.
func (o oversized) hasList(path string) bool { return o.has(path) && o[path].list }

// lists returns a folder whose list is too large, nil if there is none.
func (o oversized) lists() *string {
	for path, large := range o {
		if large.list {
			return &path
		}
	}
	return nil
}
