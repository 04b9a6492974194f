// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"slices"

	"github.com/gocurator/curator/framework"
)

// A feature of a lock is a file that imports the core and that the core does not name. It uses two seams: an
// observer is told what happens, and an entrance is asked before a grant.

// observer is told what becomes of the acquisitions and holds of a lock. Its methods must not block.
type observer interface {
	// begins is called at the beginning of an acquisition, which goes on with the context that it returns.
	begins(ctx context.Context) context.Context

	// queued says that the acquisition waits, at a position that has changed. Path is its node, empty while it waits in
	// memory. The position is negative if it is not known.
	queued(ctx context.Context, path string, position int)

	// suspended says that the connection was lost during the wait.
	suspended(ctx context.Context)

	// granted says that a hold has begun.
	granted(ctx context.Context, h *hold)

	// leased says that a lease of a hold has begun.
	leased(l *Lease)

	// returns is called at the end of an acquisition. The error is nil if it holds what it wanted.
	returns(ctx context.Context, err error)

	// ended says that a hold has ended: by its release, or lost if there is a cause.
	ended(ctx context.Context, h *hold, cause error)
}

// entrance is asked before a grant. It returns false without an error when it has waited, and the acquisition looks again.
type entrance interface {
	admit(ctx context.Context, a *acquisition) (admitted bool, err error)

	// left returns what the release does in one transaction with the deletion of the node.
	left(l *lock) framework.Op
}

// ignores is an observer that takes no notice, for others to embed.
type ignores struct{}

func (ignores) begins(ctx context.Context) context.Context { return ctx }

func (ignores) queued(context.Context, string, int) {}

func (ignores) suspended(context.Context) {}

func (ignores) granted(context.Context, *hold) {}

func (ignores) leased(*Lease) {}

func (ignores) returns(context.Context, error) {}

func (ignores) ended(context.Context, *hold, error) {}

// feature is what an option adds to a lock.
type feature struct {
	name    string // of several with one name the last counts
	ofHolds bool   // not for the turn at a semaphore, whose owner has nothing yet
	ofQueue bool   // not for a lock whose order says nothing about the turns, such as the permits of a semaphore
	attach  func(l *lock) error
}

// add adds a feature.
func (c *config) add(f feature) {
	c.features = append(slices.DeleteFunc(c.features, func(other feature) bool { return other.name == f.name }), f)
}

// tell tells the observers.
func (l *lock) tell(what func(o observer)) {
	for _, o := range l.observers {
		what(o)
	}
}
