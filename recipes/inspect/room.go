// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

const (
	longData  = 1 << 10 // bytes of data that are read under a limit
	nameCost  = 64      // bytes that a name takes beside its letters and the path of its folder
	nodeCost  = 256     // bytes that a participant takes beside its path and its data
	usualName = 100     // bytes of a reply for each name, as it is thought to be at most
	usualRest = 1 << 10 // and beside that, so that a few names may be longer
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
	isCut bool // there are more names
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
		reads := make([]framework.Read, len(lists))
		for i := range lists {
			l := &lists[i]
			reads[i] = framework.ReadChildren(l.path, &l.names).StoringErrorIn(&l.err)
		}
		return lists, readAll(ctx, client, reads)
	}
	stats := make([]*framework.Stat, len(paths))
	reads := make([]framework.Read, len(paths))
	for i := range lists {
		reads[i] = framework.ReadStat(paths[i], &stats[i]).StoringErrorIn(&lists[i].err)
	}
	if err := readAll(ctx, client, reads); err != nil {
		return nil, err
	}
	return lists, r.readListed(ctx, client, lists, stats)
}

// readListed lists the folders that have children. The number of children says nothing of the length of their
// names. So a list of usual names is read together with others, and a longer one is skipped by the client. It is
// then read alone, if there is room.
func (r *room) readListed(ctx context.Context, client *framework.Framework, lists []list, stats []*framework.Stat) error {
	var usual, long []*list
	var reads []framework.Read
	reserved := 0
	for i := range lists {
		l := &lists[i]
		switch {
		case l.err != nil:
			continue
		case stats[i] == nil:
			l.err = framework.ErrNoNode
			continue
		case stats[i].NumChildren == 0:
			continue
		}
		limit := usualRest + int(stats[i].NumChildren)*usualName
		if !r.takes(limit) {
			long = append(long, l)
			continue
		}
		reserved += limit
		usual = append(usual, l)
		reads = append(reads, framework.ReadChildren(l.path, &l.names, framework.WithReplyLimit(limit)).StoringErrorIn(&l.err))
	}
	if err := readAll(ctx, client, reads); err != nil {
		return err
	}
	r.gives(reserved)
	for _, l := range usual {
		if errors.Is(l.err, framework.ErrTooLarge) {
			long = append(long, l)
			continue
		}
		r.keepsNames(l)
	}
	for _, l := range long {
		limit := r.left / 2 // a reply and the names in it are in memory at the same time
		if limit < usualRest {
			l.err = framework.ErrTooLarge
			r.keepsNames(l)
			continue
		}
		if err := client.Pipeline(ctx, framework.ReadChildren(l.path, &l.names, framework.WithReplyLimit(limit)).StoringErrorIn(&l.err)); err != nil {
			return err
		}
		r.keepsNames(l)
	}
	return nil
}

// keepsNames takes the room for the names of a list. Of a folder that has too many folders it keeps some.
func (r *room) keepsNames(l *list) {
	switch {
	case errors.Is(l.err, framework.ErrTooLarge):
		l.names, l.err = nil, errNoRoom
	case l.err != nil || r.takes(cost(l.path, l.names)):
	case slices.ContainsFunc(l.names, belongs):
		l.names, l.err = nil, errNoRoom // some contenders without the others would be told as holders
	default:
		l.isCut = true
		left := r.left / 2 // the rest is for what is below
		n := 0
		for n < len(l.names) && left >= 0 {
			left -= cost(l.path, l.names[n:n+1])
			n++
		}
		some := make([]string, n)
		for i := range some {
			some[i] = strings.Clone(l.names[i])
		}
		l.names = some
		r.takes(cost(l.path, some))
	}
}

// readNodes reads the data and the stats of nodes. Under a limit it first asks for the stats, which say how much
// data there is.
func (r *room) readNodes(ctx context.Context, client *framework.Framework, nodes []*node) error {
	reads := make([]framework.Read, len(nodes))
	defer func() {
		for _, n := range nodes {
			n.data = attempt.Plain(client, n.path, n.data)
		}
	}()
	if r == nil {
		for i, n := range nodes {
			reads[i] = framework.ReadData(n.path, &n.data, framework.StoringStatIn(&n.stat), framework.Undecompressed()).StoringErrorIn(&n.err)
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
			small = append(small, framework.ReadData(n.path, &n.data, framework.StoringStatIn(&n.stat), framework.Undecompressed()).StoringErrorIn(&n.err))
		}
	}
	return readAll(ctx, client, small)
}
