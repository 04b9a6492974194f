// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"

	"github.com/gocurator/curator/framework"
)

const (
	longData = 1 << 10 // bytes of data that are read under a limit
	nameCost = 64      // bytes that a name takes beside its letters and the path of its folder
	nodeCost = 256     // bytes that a participant takes beside its path and its data
)

// room is what is left of a memory limit. A nil room has no end.
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

// gives back what was taken.
func (r *room) gives(n int) {
	if r != nil {
		r.left += n
	}
}

// list is the names in a folder.
type list struct {
	path  string
	names []string
	err   error
}

// errNoRoom is the error of a folder that is too long for what is left.
var errNoRoom = errors.New("more children than there is room for")

// readLists lists many folders. What the server says about one of them is in its err. Under a limit it first
// asks how many children they have.
func (r *room) readLists(ctx context.Context, client *framework.Framework, paths []string) ([]list, error) {
	lists := make([]list, len(paths))
	for i, path := range paths {
		lists[i].path = path
	}
	if r == nil {
		return lists, readListed(ctx, client, lists, make([]bool, len(lists)))
	}
	stats := make([]*framework.Stat, len(paths))
	reads := make([]framework.Read, len(paths))
	for i := range lists {
		reads[i] = framework.ReadStat(paths[i], &stats[i]).StoringErrorIn(&lists[i].err)
	}
	if err := readAll(ctx, client, reads); err != nil {
		return nil, err
	}
	isLeaf := make([]bool, len(paths))
	for i := range lists {
		l := &lists[i]
		switch {
		case l.err != nil:
		case stats[i] == nil:
			l.err = framework.ErrNoNode
		case !r.takes(int(stats[i].NumChildren) * (len(l.path) + nameCost)):
			l.err = errNoRoom
		default:
			isLeaf[i] = stats[i].NumChildren == 0
		}
	}
	if err := readListed(ctx, client, lists, isLeaf); err != nil {
		return nil, err
	}
	for i := range lists {
		bytes := 0
		for _, name := range lists[i].names {
			bytes += len(name)
		}
		if !r.takes(bytes) {
			lists[i].names, lists[i].err = nil, errNoRoom
		}
	}
	return lists, nil
}

// readListed lists the folders that have no error and are no leaves.
func readListed(ctx context.Context, client *framework.Framework, lists []list, isLeaf []bool) error {
	var reads []framework.Read
	for i := range lists {
		if l := &lists[i]; l.err == nil && !isLeaf[i] {
			reads = append(reads, framework.ReadChildren(l.path, &l.names).StoringErrorIn(&l.err))
		}
	}
	return readAll(ctx, client, reads)
}

// readNodes reads the data and the stats of nodes. Under a limit it first asks for the stats, which say how much
// data there is.
func (r *room) readNodes(ctx context.Context, client *framework.Framework, nodes []*node) error {
	reads := make([]framework.Read, len(nodes))
	if r == nil {
		for i, n := range nodes {
			reads[i] = framework.ReadData(n.path, &n.data, framework.StoringStatIn(&n.stat)).StoringErrorIn(&n.err)
		}
		return readAll(ctx, client, reads)
	}
	stats := make([]*framework.Stat, len(nodes))
	for i, n := range nodes {
		reads[i] = framework.ReadStat(n.path, &stats[i]).StoringErrorIn(&n.err)
	}
	if err := readAll(ctx, client, reads); err != nil {
		return err
	}
	var small []framework.Read
	for i, n := range nodes {
		switch {
		case n.err != nil:
			continue
		case stats[i] == nil:
			n.err = framework.ErrNoNode
			continue
		}
		n.stat = *stats[i]
		if length := int(n.stat.DataLength); length > 0 && length <= longData && r.takes(length) {
			small = append(small, framework.ReadData(n.path, &n.data, framework.StoringStatIn(&n.stat)).StoringErrorIn(&n.err))
		}
	}
	return readAll(ctx, client, small)
}
