// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// role is for what a run follows a znode.
type role int

const (
	ownShare  role = iota
	previous       // the member before this one in the ring, or the head of a plan without this member
	theOrders      // if this member is the head
	theSets        // and the roles after it: each znode of the set, if this member is the head
)

// event is a new state of a znode that is followed.
type event struct {
	role role
	path string
	node framework.Node
	err  error // the client has ended
}

// followed are the znodes that a run follows, one at most in each role. Their states come as events.
type followed struct {
	client  *framework.Framework
	ctx     context.Context // of all
	running *sync.WaitGroup
	events  chan event
	znodes  map[role]follower
}

// follower is a znode that is followed.
type follower struct {
	path string
	stop context.CancelFunc
}

// follow has the znode at path followed in a role, instead of the one before. Without a path none is.
func (f *followed) follow(as role, path string) {
	now := f.znodes[as]
	if now.path == path {
		return
	}
	if now.stop != nil {
		now.stop()
	}
	if path == "" {
		delete(f.znodes, as)
		return
	}
	ctx, cancel := context.WithCancel(f.ctx)
	f.znodes[as] = follower{path, cancel}
	send := func(node framework.Node, err error) {
		select {
		case f.events <- event{as, path, node, err}:
		case <-ctx.Done():
		}
	}
	f.running.Go(func() {
		loop := attempt.Loop{Client: f.client, Path: path, Warning: "a znode of the partitions cannot be followed, trying again"}
		err := loop.Follow(ctx, func(node framework.Node) {
			node.Data = attempt.Plain(f.client, path, node.Data)
			send(node, nil)
		}, framework.Undecompressed()) // orders are never compressed, and a set need not be
		if ctx.Err() == nil {
			send(framework.Node{}, err)
		}
	})
}

// isOld reports whether the znode of an event is not followed any more.
func (f *followed) isOld(e event) bool { return f.znodes[e.role].path != e.path }
