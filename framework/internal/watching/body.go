// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"math"

	"github.com/gocurator/curator/framework/internal/wire"
)

// AddWatchBody returns the request record of addWatch.
func AddWatchBody(full string, mode Mode) []byte {
	e := wire.NewEncoder(len(full) + 8)
	e.String(full)
	e.Int32(int32(mode))
	return e.Bytes()
}

// SetWatchesBody returns the request record of setWatches for watches on the data of paths.
func SetWatchesBody(fulls []string) []byte {
	e := wire.NewEncoder(32 + 80*len(fulls))
	e.Int64(math.MaxInt64) // the data has not changed since then
	e.Int32(int32(len(fulls)))
	for _, full := range fulls {
		e.String(full)
	}
	e.Int32(0) // paths without a znode
	e.Int32(0) // lists of children
	return e.Bytes()
}

func removeWatchesBody(key Key) []byte {
	e := wire.NewEncoder(len(key.Full) + 8)
	e.String(key.Full)
	e.Int32(int32(key.Kind))
	return e.Bytes()
}

// Lengths in setWatches2: of what is not a path, and of what a path has beside its bytes.
const (
	setWatches2Header = 8 + 5*4
	pathHeader        = 4
)

// setWatches2Body returns the request record of setWatches2. size is the length of the paths.
func setWatches2Body(size int, paths [modes][]string) []byte {
	e := wire.NewEncoder(setWatches2Header + size)
	e.Int64(0) // the transaction up to which one-shot watches know what has happened
	for range 3 {
		e.Int32(0) // no one-shot watches: on data, absent znodes, lists of children
	}
	for _, mode := range []Mode{Plain, Recursive} {
		e.Int32(int32(len(paths[mode])))
		for _, full := range paths[mode] {
			e.String(full)
		}
	}
	return e.Bytes()
}
