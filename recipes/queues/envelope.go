// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The envelope of Curator's ItemSerializer: a version, each item with its
// length, and an end.
const (
	envelopeVersion = 0x00010001
	opcodeItem      = 0x01
	opcodeEnd       = 0x02

	versionSize = 4
	itemSize    = 1 + 4 // of what precedes an item
)

// errCorrupted says that a znode has the name of an item and is none.
var errCorrupted = errors.New("corrupted item")

// notes is what this package writes after the end of an envelope, where Curator reads nothing, as JSON.
// The zero value is not written.
type notes struct {
	// Attempts has a number for each item: how many times it was given to a consumer before the znode
	// had its first lock. It is negative after locks that do not count. Zeros at the end are left out.
	Attempts []int `json:"attempts,omitempty"`

	// Error is why the first item was last put back.
	Error string `json:"error,omitempty"`
}

func (n notes) attempts(index int) int {
	if index >= len(n.Attempts) {
		return 0
	}
	return min(max(n.Attempts[index], -maxAttempts), maxAttempts)
}

// maxAttempts bounds a number of attempts that was read, in both directions. A greater one was written by hand, and
// would overflow.
const maxAttempts = 1 << 30

// maxError bounds the length of an error in an envelope, in bytes.
const maxError = 1 << 10

// encode returns the data of a znode that holds items. What makes it longer than most is left out
// of the error.
func encode(items [][]byte, n notes, most int) []byte {
	data := envelope(items)
	for len(n.Attempts) > 0 && n.Attempts[len(n.Attempts)-1] == 0 {
		n.Attempts = n.Attempts[:len(n.Attempts)-1]
	}
	n.Error = strings.ToValidUTF8(n.Error[:min(len(n.Error), maxError)], "")
	for {
		if len(n.Attempts) == 0 && n.Error == "" {
			return data
		}
		text, err := json.Marshal(n)
		if err != nil {
			panic(err) // numbers and a string
		}
		if n.Error == "" || len(data)+len(text) <= most {
			return append(data, text...)
		}
		n.Error = strings.ToValidUTF8(n.Error[:len(n.Error)/2], "")
	}
}

// envelope returns items as Curator writes them.
func envelope(items [][]byte) []byte {
	size := versionSize + 1
	for _, item := range items {
		size += itemSize + len(item)
	}
	data := binary.BigEndian.AppendUint32(make([]byte, 0, size), envelopeVersion)
	for _, item := range items {
		data = append(data, opcodeItem)
		data = binary.BigEndian.AppendUint32(data, uint32(len(item))) //nolint:gosec // a request has a megabyte at most
		data = append(data, item...)
	}
	return append(data, opcodeEnd)
}

// decode reads what encode writes. The items are parts of data, and not nil. What follows the end and
// is no notes does not count, as in Curator.
func decode(data []byte) (items [][]byte, n notes, err error) {
	items, rest, err := open(data)
	if err != nil {
		return nil, notes{}, err
	}
	if json.Unmarshal(rest, &n) != nil {
		n = notes{}
	}
	return items, n, nil
}

// open returns the items of an envelope, and what follows its end.
func open(data []byte) (items [][]byte, rest []byte, err error) {
	items = [][]byte{} // an empty envelope is consumed like any other
	if len(data) < versionSize {
		return nil, nil, fmt.Errorf("%w: %d bytes, expected a version", errCorrupted, len(data))
	}
	if version := binary.BigEndian.Uint32(data); version != envelopeVersion {
		return nil, nil, fmt.Errorf("%w: version %#x, expected %#x", errCorrupted, version, envelopeVersion)
	}
	for rest = data[versionSize:]; ; {
		switch {
		case len(rest) == 0:
			return nil, nil, fmt.Errorf("%w: no end", errCorrupted)
		case rest[0] == opcodeEnd:
			return items, rest[1:], nil
		case rest[0] != opcodeItem:
			return nil, nil, fmt.Errorf("%w: opcode %d, expected %d or %d", errCorrupted, rest[0], opcodeItem, opcodeEnd)
		case len(rest) < itemSize:
			return nil, nil, fmt.Errorf("%w: an item without a length", errCorrupted)
		}
		size := uint64(binary.BigEndian.Uint32(rest[1:]))
		rest = rest[itemSize:]
		if size > uint64(len(rest)) {
			return nil, nil, fmt.Errorf("%w: an item of %d bytes, and %d are left", errCorrupted, size, len(rest))
		}
		items = append(items, rest[:size:size])
		rest = rest[size:]
	}
}
