// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/watching"
)

type watchedOption struct {
	anyCall
	into **Watch
}

// Watched sets a watch together with the read. For Get and Exists it is on the data of the znode, and for
// Children on the list of its children. Exists also watches a path without a znode; Get and Children then
// fail and leave no watch. When the read succeeds the watch is stored in *into, and the caller must Cancel
// it when it is no longer needed. When the read fails, *into is not changed.
func Watched(into **Watch) ReadOption { return watchedOption{into: into} }

func (o watchedOption) set(c *callConfig) error {
	return put(c, watched, &c.watch, o.into, "a place for the *Watch")
}

// watchRequest is a read that asks for a watch.
type watchRequest struct {
	f       *Framework
	setting watching.Setting
	into    **Watch
	flag    *byte  // in the request: asks the server for a watch; nil if it always does
	current *Watch // of the last try
}

// begin registers a try of the request and returns the function that receives its outcome.
func (r *watchRequest) begin() func(conduit.Reply, error) {
	r.current.Cancel() // of a try that failed after this read had succeeded
	r.current = &Watch{log: r.f.cfg.Logger}
	ask, done := r.f.watches.Begin(&r.current.one, r.setting)
	if r.flag != nil {
		// Each try decides again: the watch that served the last one may be gone.
		*r.flag = 0
		if ask {
			*r.flag = 1
		}
	}
	return done
}

// deliver hands the watch over, or cancels it if the read failed.
func (r *watchRequest) deliver(ok bool) {
	if !ok || !r.current.one.IsSet() {
		r.current.Cancel()
		return
	}
	*r.into = r.current
}

// WatchData sets watches on the data of several znodes in one request, as part of a
// [Framework.Pipeline], and reads nothing. It stores the watches in into, which must be as
// long as paths; the caller must Cancel them. The watch of a missing znode has ended with
// EventNodeDeleted by the time Pipeline returns, and leaves nothing at the server.
//
// Use it for names that are never reused. If a znode is deleted and created again while the request is
// under way, the watch may report the deletion and leave an unused watch at the server. For a missing
// znode, persistent watches above it receive EventNodeDeleted again; a persistent watch on one of the paths
// receives [EventResync]. The server never refuses the request for missing permissions, but ZooKeeper
// 3.8.4, 3.9.2 and later send no events about a znode that the client may not read.
//
// The request is setWatches. Every ZooKeeper has it: its own clients set their watches again with it. ClickHouse
// Keeper up to 25.11 does not, and hangs up. When a server has done so three times in a row, the error matches
// [ErrUnsupported]. With [Read.StoringErrorIn] the request is only sent to a server that has reported a version
// of ZooKeeper, and the error of WatchData matches ErrUnsupported otherwise. The client asks for the version once
// per connection, and WatchData does not wait for the answer. A read with [Watched] needs no such request.
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
