// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"cmp"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/recipes/locks/internal/heldnode"
	"github.com/gocurator/curator/recipes/locks/internal/identity"
)

// WithoutReentry makes the lock refuse an acquisition with a context that holds the lock
// already: the error matches [ErrReentered], and nothing is sent. Goroutines that share
// such a context then get an error instead of entering together. To exclude each other they
// must acquire with contexts that carry no lease, such as the one that Do was called with.
//
// The option is for this value only: another lock on the same path, made without it,
// re-enters. A writer that becomes a reader does not re-enter. Default: a mutex, either
// side of a read/write lock, and a [LockInternals] re-enter. A semaphore never does; for a
// semaphore the option refuses a second permit with the context of a first.
func WithoutReentry() Option {
	return optionFunc(options.Plain(func(c *config) { c.noReentry = true }))
}

// WithErrorPolicy sets the error policy, which says when trouble with the connection ends
// the leases of this lock. Default: the client's policy.
func WithErrorPolicy(p framework.ErrorPolicy) Option {
	return optionFunc(options.Checked(p >= framework.StandardErrorPolicy && p <= framework.QuorumErrorPolicy, func(c *config) { c.policy = p },
		"error policy %d, expected framework.StandardErrorPolicy, SessionErrorPolicy or QuorumErrorPolicy", p))
}

// WithCleanupTimeout makes an acquisition that fails wait for up to d until the server has
// deleted its node, even if its context has ended. The next contender then has its turn when
// Acquire returns. After d, and at the loss of the session, the deletion goes on in the
// background. Default: 0, the wait ends with the context.
func WithCleanupTimeout(d time.Duration) Option {
	return optionFunc(options.Checked(d >= 0, func(c *config) { c.cleanup = d }, "WithCleanupTimeout(%v), expected 0 or more", d))
}

// WithLockData sets the data of the lock's nodes, which Participants show as the identity.
// It may be anything but the message of [AttemptRevoke]. Default: host name, slash, process
// id, and after a space the label, see [WithLabel].
func WithLockData(data []byte) Option {
	return optionFunc(options.Checked(string(data) != heldnode.Request, func(c *config) { c.data = append([]byte{}, data...) },
		"lock data %s, which asks for the lock to be given back, expected other data", data))
}

// WithRecipeName sets the attribute curator.recipe in the telemetry of the lock. It
// distinguishes the waits and holds of this lock from others without naming its path.
// Default: the name of the recipe, "custom" for a [LockInternals].
func WithRecipeName(name string) Option {
	return optionFunc(options.Checked(name != "", func(c *config) { c.recipe = name }, "recipe name \"\", expected one such as \"mutex\""))
}

// WithLabel sets a name for the owner, which Participants show beside host and process: the
// name of the replica, the job or the operator. A label is 1 to 256 bytes of printable
// characters. It is part of the node's data, after host name, slash, process id and a
// space, which Java tools show as text. It cannot be combined with [WithLockData].
func WithLabel(label string) Option {
	err := identity.CheckLabel(label)
	return optionFunc(options.Checked(err == nil, func(c *config) { c.label = label }, "label %.40q: %w", label, err))
}

// WithQueuePlaces sets how many acquisitions of one client may have a node in the queue of one lock at a time, 0 for no limit.
// The others of the client wait in memory, in the order of their calls, and cost the servers nothing. All locks and
// goroutines of a client that name the same queue share the places. Default: 4 while no other client is in the queue, and 2 when
// others are.
//
// More places give the goroutines of this client more turns among the turns of other clients. Without others in the queue, short
// holds of this client get about as many turns in a round trip to the server as there are places. Each place is one more name in every
// list of the queue. Under [WithLocalHandoff] there is one place. The option is for an [InterProcessMutex], the turn at an
// [InterProcessSemaphoreV2], and a [LockInternals] with a [QueueDriver] for one lease, such as an election. All others have no limit.
func WithQueuePlaces(n int) Option {
	return optionFunc(options.Checked(n >= 0, func(c *config) { c.places = cmp.Or(n, noLimit) }, "WithQueuePlaces(%d), expected 0 or more", n))
}
