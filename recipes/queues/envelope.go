package queues

import (
	"encoding/binary"
	"errors"
	"fmt"
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

// encode returns the data of a znode that holds items.
func encode(items [][]byte) []byte {
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

// decode reads what encode writes. The items are parts of data. As in Curator,
// what follows the end does not count.
func decode(data []byte) (items [][]byte, err error) {
	if len(data) < versionSize {
		return nil, fmt.Errorf("%w: %d bytes, expected a version", errCorrupted, len(data))
	}
	if version := binary.BigEndian.Uint32(data); version != envelopeVersion {
		return nil, fmt.Errorf("%w: version %#x, expected %#x", errCorrupted, version, envelopeVersion)
	}
	for rest := data[versionSize:]; ; {
		switch {
		case len(rest) == 0:
			return nil, fmt.Errorf("%w: no end", errCorrupted)
		case rest[0] == opcodeEnd:
			return items, nil
		case rest[0] != opcodeItem:
			return nil, fmt.Errorf("%w: opcode %d, expected %d or %d", errCorrupted, rest[0], opcodeItem, opcodeEnd)
		case len(rest) < itemSize:
			return nil, fmt.Errorf("%w: an item without a length", errCorrupted)
		}
		size := uint64(binary.BigEndian.Uint32(rest[1:]))
		rest = rest[itemSize:]
		if size > uint64(len(rest)) {
			return nil, fmt.Errorf("%w: an item of %d bytes, and %d are left", errCorrupted, size, len(rest))
		}
		items = append(items, rest[:size:size])
		rest = rest[size:]
	}
}
