// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"encoding/binary"

	"github.com/gocurator/curator/framework"
)

// record is a state of a znode in one piece of memory: its name, its Stat, its data. It never
// changes.
//
// The Stat is a mask of the fields that are not zero, and these fields as varints. Transactions
// and times are differences from the creation, mostly zero or small. The Stat of most znodes
// takes 12 bytes, and 72 as a struct.
type record []byte

// hasData is the bit of the mask that tells empty data from none.
const hasData = 1

// statFields is the number of fields of a Stat.
const statFields = 11

// newRecord copies the data, so that the record keeps no reply in memory.
func newRecord(name string, data *ChildData) record {
	s := &data.Stat
	// The mask of a node without children fits one byte if its fields come first.
	fields := [statFields]int64{
		s.Czxid, s.Mzxid - s.Czxid, s.Ctime, s.Mtime - s.Ctime, int64(s.Version), s.EphemeralOwner,
		s.Pzxid - s.Czxid, int64(s.Cversion), int64(s.NumChildren), int64(s.Aversion), int64(s.DataLength) - int64(len(data.Data)),
	}
	var mask uint64
	if data.Data != nil {
		mask = hasData
	}
	var numbers [statFields * binary.MaxVarintLen64]byte
	stat := numbers[:0]
	for i, field := range fields {
		if field != 0 {
			mask |= hasData << (i + 1)
			stat = binary.AppendVarint(stat, field)
		}
	}
	var space [2 * binary.MaxVarintLen64]byte
	head := binary.AppendUvarint(binary.AppendUvarint(space[:0], uint64(len(name))), mask)

	r := make(record, 0, len(head)+len(name)+len(stat)+len(data.Data))
	return append(append(append(append(r, head...), name...), stat...), data.Data...)
}

// split returns the parts of a record.
func (r record) split() (mask uint64, name, rest []byte) {
	length, n := binary.Uvarint(r)
	mask, m := binary.Uvarint(r[n:])
	begin := n + m
	end := begin + int(length)
	return mask, r[begin:end], r[end:]
}

func (r record) name() []byte {
	_, name, _ := r.split()
	return name
}

// read returns the Stat and the data.
func (r record) read() (s framework.Stat, data []byte) {
	mask, _, rest := r.split()
	var fields [statFields]int64
	for i := range fields {
		if mask&(hasData<<(i+1)) != 0 {
			field, n := binary.Varint(rest)
			fields[i], rest = field, rest[n:]
		}
	}
	if mask&hasData != 0 {
		data = rest[:len(rest):len(rest)]
	}
	return framework.Stat{
		Czxid: fields[0], Mzxid: fields[0] + fields[1], Ctime: fields[2], Mtime: fields[2] + fields[3],
		Version: int32(fields[4]), EphemeralOwner: fields[5],
		Pzxid: fields[0] + fields[6], Cversion: int32(fields[7]), NumChildren: int32(fields[8]), Aversion: int32(fields[9]),
		DataLength: int32(fields[10] + int64(len(rest))),
	}, data
}

// childData returns the state in the form for callers, nil for no record.
func (r record) childData(path string) *ChildData {
	if r == nil {
		return nil
	}
	data := &ChildData{Path: path}
	data.Stat, data.Data = r.read()
	return data
}
