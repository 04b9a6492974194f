// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
)

const (
	longData = 1 << 10 // bytes of data that are read under a limit
	nameCost = 64      // bytes that a name takes beside its letters and the path of its folder
	nodeCost = 256     // bytes that a participant takes beside its path and its data
)

// room is what is left of a memory limit. Nothing is given back, so it also bounds what is under way. A nil room has
// no end.
type room struct{ left int }

var unbounded *room

// takes reports whether there was room for so many bytes, and takes them.
func (r *room) takes(n int) bool {
	if r == nil {
		return true
	}
	if n > r.left {
		return false
	}
	r.left -= n
	return true
}

// list is the names in a folder.
type list struct {
	path  string
	names []string
	isCut bool  // there are more names
	err   error // [framework.ErrTooLarge] when there was no room for it
}

// readLists lists many folders. What the server says about one of them is in its err. Under a limit the replies
// together fit what is left. A longer one is read again, alone.
func (r *room) readLists(ctx context.Context, client *framework.Framework, paths []string) ([]list, error) {
	lists := make([]list, len(paths))
	read := func(l *list, part int) framework.Read {
		var opts []framework.ReadOption
		if r != nil {
			opts = append(opts, framework.WithReplyLimit(max(1, r.left/part)))
		}
		return framework.ReadChildren(l.path, &l.names, opts...).StoringErrorIn(&l.err)
	}
	reads := make([]framework.Read, len(paths))
	for i, path := range paths {
		lists[i].path = path
		reads[i] = read(&lists[i], len(paths))
	}
	if err := readAll(ctx, client, reads); err != nil || r == nil {
		return lists, err
	}
	for i := range lists {
		l := &lists[i]
		if errors.Is(l.err, framework.ErrTooLarge) && r.left > nodeCost {
			if err := client.Pipeline(ctx, read(l, 2)); err != nil { // the names in a reply take as much as the reply
				return nil, err
			}
		}
		r.keepNames(l)
	}
	return lists, nil
}

// keepNames takes the room for the names of a list. Of a folder that has too many folders it keeps some.
func (r *room) keepNames(l *list) {
	n := len(l.names) * nameCost
	for _, name := range l.names {
		n += len(l.path) + len(name)
	}
	switch {
	case l.err != nil || r.takes(n):
	case slices.ContainsFunc(l.names, belongs):
		l.names, l.err = nil, framework.ErrTooLarge // some contenders without the others would look like holders
	default:
		half := r.left / 2 // the rest is for what is below
		some := slices.Clone(l.names[:len(l.names)*half/n])
		for i := range some {
			some[i] = strings.Clone(some[i]) // or they keep the whole reply
		}
		l.names, l.isCut = some, true
		r.left -= half
	}
}

// readNodes reads the data and the stats of nodes. Under a limit it first asks for the stats, which say how much
// data there is.
func (r *room) readNodes(ctx context.Context, client *framework.Framework, nodes []*node) error {
	var reads []framework.Read
	if r != nil {
		stats := make([]*framework.Stat, len(nodes))
		for i, n := range nodes {
			reads = append(reads, framework.ReadStat(n.path, &stats[i]).StoringErrorIn(&n.err))
		}
		if err := readAll(ctx, client, reads); err != nil {
			return err
		}
		reads = nil
		for i, n := range nodes {
			switch {
			case n.err != nil:
			case stats[i] == nil:
				n.err = framework.ErrNoNode
			default:
				n.stat = *stats[i]
			}
		}
	}
	for _, n := range nodes {
		length := int(n.stat.DataLength)
		if r == nil || n.err == nil && length > 0 && length <= longData && r.takes(length) {
			reads = append(reads, framework.ReadData(n.path, &n.data, framework.StoringStatIn(&n.stat)).StoringErrorIn(&n.err))
		}
	}
	return readAll(ctx, client, reads)
}
