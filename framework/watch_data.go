package framework

import (
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/watching"
)

// WatchData sets watches on the data of several znodes in one request, as part of a
// [Framework.Pipeline], and reads nothing. It stores the watches in into, which must be as
// long as paths; the caller must Cancel them. The watch of a missing znode has ended with
// EventNodeDeleted by the time Pipeline returns, and leaves nothing at the server.
//
// Use it for names that are never reused: if a znode is deleted and recreated while the
// request is under way, the watch may report the deletion and leave an unused watch on the
// server. For a missing znode, persistent watches above it receive EventNodeDeleted again; a
// persistent watch on one of the paths receives [EventResync]. The server never refuses the request for
// missing permissions, but ZooKeeper 3.8.4, 3.9.2 and later send no events about a znode
// that the client may not read. ZooKeeper's own clients use the request to set their
// watches again after a reconnect.
func WatchData(paths []string, into []*Watch) Read {
	first := ""
	if len(paths) > 0 {
		first = paths[0]
	}
	return Read{operation: opSetWatches, path: first, build: func(f *Framework) (*call, error) { return f.watchDataCall(paths, into) }}
}

func (f *Framework) watchDataCall(paths []string, into []*Watch) (*call, error) {
	if len(paths) == 0 || len(paths) != len(into) {
		return nil, fmt.Errorf("%w: WatchData of %d paths into %d places, expected as many, and one at least",
			ErrInvalidOption, len(paths), len(into))
	}
	requests := make(watchRequests, len(paths))
	fulls := make([]string, len(paths))
	for i, path := range paths {
		if err := ValidatePath(path); err != nil {
			return nil, err
		}
		fulls[i] = f.root.full(path)
		setting := watching.Setting{Key: watching.Key{Full: fulls[i], Kind: watching.Data}, Path: path, Always: true}
		requests[i] = watchRequest{f: f, setting: setting, into: &into[i]}
	}
	return &call{
		operation: opSetWatches, path: paths[0], body: watching.SetWatchesBody(fulls),
		follower: requests,
	}, nil
}

// watchRequests are requests that are sent as one.
type watchRequests []watchRequest

func (requests watchRequests) begin() func(conduit.Reply, error) {
	done := make([]func(conduit.Reply, error), len(requests))
	for i := range requests {
		done[i] = requests[i].begin()
	}
	return func(reply conduit.Reply, err error) {
		for _, fn := range done {
			fn(reply, err)
		}
	}
}

func (requests watchRequests) deliver(ok bool) {
	for i := range requests {
		requests[i].deliver(ok)
	}
}
