// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// inflated counts the decompressed data that a picture keeps. A few kilobytes at the server
// can be a thousand times as long.
type inflated struct {
	limit, total int
	sizes        map[string]int // by path
}

func newInflated(limit int) *inflated { return &inflated{limit: limit, sizes: make(map[string]int)} }

// set notes the size of what the picture keeps for a path, 0 for nothing. It does nothing
// for nil.
func (i *inflated) set(path string, size int) {
	if i == nil {
		return
	}
	i.total += size - i.sizes[path]
	if size == 0 {
		delete(i.sizes, path)
		return
	}
	i.sizes[path] = size
}

// decompress decompresses the data of a visit. It is done here, not with the read, so that
// one znode at a time is decompressed and not all that are under way.
func (e *engine) decompress(v *visit) {
	if !v.has(readData) || v.dataErr != nil || len(v.data) == 0 {
		return
	}
	if e.client.History() == e.history && e.picture.shows(v.n.path, &v.dataStat) {
		v.known = true // whatever the history is by the time of put
		return
	}
	v.dataErr = attempt.Guard(e.client, func() (err error) {
		v.data, err = e.client.Decompress(v.n.path, v.data)
		return err
	})
	i := e.picture.inflated
	if all := i.total - i.sizes[v.n.path] + len(v.data); v.dataErr == nil && all > i.limit {
		v.dataErr = fmt.Errorf("%w: with the %d bytes of this znode the cache has %d bytes of decompressed data, at most %d are kept",
			framework.ErrCompression, len(v.data), all, i.limit)
		v.data = nil
	}
}
