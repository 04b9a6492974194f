// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

// observer follows the first of a queue. It watches that node and no other, so a
// candidate that comes or goes behind it costs an observer nothing. The listed queue
// stays right as nodes leave it, because new nodes come behind it. So the observer
// needs a new list only when all listed nodes have left. No look shows an older state than
// the look before: a server that is behind refuses the session, and a server that opens a new
// session has applied that write.
type observer struct {
	*election

	telemetry telemetry
	queue     []string // known, in order
	history   int64    // of queue, see framework.Framework.History
	began     bool     // something was reported
	leads     identity // of the leader that was reported last
}

// identity is a leader with its value. The zero value is none. In another history another
// candidate may have the same token.
type identity struct {
	path  string
	token int64
	value string
}

// is reports whether both are the same leadership, with any value.
func (i identity) is(other identity) bool { return i.path == other.path && i.token == other.token }

// errDone ends a run whose consumer wants no more.
var errDone = errors.New("the consumer has left the loop")

func (o *observer) run(ctx context.Context, yield func(*locks.Participant, error) bool) error {
	var p attempt.Pause
	for {
		err := o.step(ctx, yield)
		switch {
		case errors.Is(err, errDone):
			return nil
		case ctx.Err() != nil:
			return attempt.Interrupted(ctx)
		case attempt.Ended(o.client) != nil:
			return attempt.Ended(o.client)
		case err == nil:
			p.Reset()
		case !mayPass(err):
			return err
		default:
			p.Wait(ctx, o.client, err)
		}
	}
}

// step reports the leader, if it is another than before, and waits until it may
// have changed.
func (o *observer) step(ctx context.Context, yield func(*locks.Participant, error) bool) error {
	if history := o.client.History(); history != o.history {
		o.queue, o.history = nil, history
	}
	leader, watch, err := o.look(ctx)
	defer func() { watch.Cancel() }()
	if err != nil || o.client.History() != o.history {
		return err // or look again: the reply may be of either history
	}
	var leads identity
	if leader != nil {
		leads = identity{leader.Path, leader.Token, leader.Identity}
	}
	if o.began && leader != nil && leader.RevocationRequested() && leads.is(o.leads) {
		leads = o.leads // the request to resign is no value
	}
	if !o.began || leads != o.leads {
		if !o.began || !leads.is(o.leads) { // and not another identity of the same leader
			o.telemetry.saw(leader != nil)
		}
		o.began, o.leads = true, leads
		if !yield(leader, nil) {
			return errDone
		}
	}
	_, err = watch.Wait(ctx)
	return err
}

// look returns the first in the queue and a watch on its node. When the queue
// is empty it returns nil and a watch that a first candidate ends.
func (o *observer) look(ctx context.Context) (*locks.Participant, *framework.Watch, error) {
	for {
		for len(o.queue) > 0 {
			var watch *framework.Watch
			leader, err := o.internals.Participant(ctx, o.queue[0], framework.Watched(&watch))
			switch {
			case err == nil:
				return &leader, watch, nil
			case !errors.Is(err, framework.ErrNoNode):
				return nil, watch, err
			}
			watch.Cancel()
			o.queue = o.queue[1:]
		}
		if watch, err := o.list(ctx); err != nil || watch != nil {
			return nil, watch, err
		}
	}
}

// list learns the queue. If that is empty it returns a watch on the folder, or
// on its creation. It returns nothing if a candidate came between the requests.
func (o *observer) list(ctx context.Context) (watch *framework.Watch, err error) {
	if o.queue, err = o.internals.Queue(ctx); err != nil || len(o.queue) > 0 {
		return nil, err
	}
	stat, err := o.client.Exists(ctx, o.Path(), framework.Watched(&watch))
	if err != nil || stat == nil {
		return watch, err
	}
	watch.Cancel()
	var folder *framework.Watch
	if o.queue, err = o.internals.Queue(ctx, framework.Watched(&folder)); err != nil || len(o.queue) == 0 {
		return folder, err
	}
	folder.Cancel()
	return nil, nil
}
