// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
)

// requestsOfAllCalls is what the calls of the table make together.
const requestsOfAllCalls = 325

// lockKind is a recipe with the calls that all of them have.
type lockKind struct {
	typ      string
	option   string // for the name
	open     func(tb testing.TB, client *framework.Framework, path string) locks.InterProcessLock
	rival    func(tb testing.TB, client *framework.Framework, path string) locks.InterProcessLock // nil: open
	requests map[string]int                                                                       // of its calls below; one that is not here has the code of another row
}

var lockKinds = []lockKind{
	{typ: "InterProcessMutex", open: openMutex, requests: map[string]int{
		free: 6, behind: 5, tryFree: 6, tryHeld: 3, again: 1, releasing: 1, doing: 7, asking: 2,
	}},
	{typ: "InterProcessMutex", option: " with local handoff", open: openHandoff, requests: map[string]int{
		free: 6, behind: 5, tryHeld: 3, again: 1, releasing: 1,
	}},
	{typ: "InterProcessMutex", option: " with a lock delay", open: openDelayed, requests: map[string]int{
		free: 7, behind: 6, tryHeld: 3, releasing: 1,
	}},
	{typ: "ReadLock", open: openRead, rival: openWrite, requests: map[string]int{
		free: 6, behind: 5, tryFree: 6, tryHeld: 3, again: 1, releasing: 1, asking: 2,
	}},
	{typ: "WriteLock", open: openWrite, requests: map[string]int{
		free: 6, behind: 5, tryFree: 6, tryHeld: 3, again: 1, releasing: 1, asking: 2,
	}},
	{typ: "InterProcessSemaphore", open: openSemaphore, requests: map[string]int{
		free: 6, behind: 5, tryFree: 6, tryHeld: 3, releasing: 1,
	}},
	{typ: "InterProcessSemaphoreV2", open: openSemaphoreOf1, requests: map[string]int{
		free: 14, behind: 9, tryFree: 10, tryHeld: 2, releasing: 1, asking: 2,
	}},
}

// The situations of the calls that all recipes have.
const (
	free      = "Acquire of a free lock"
	behind    = "Acquire behind a holder"
	tryFree   = "TryAcquire of a free lock"
	tryHeld   = "TryAcquire of a held lock"
	again     = "Acquire again"
	releasing = "Release"
	doing     = "Do"
	asking    = "Participants"
)

func openMutex(tb testing.TB, client *framework.Framework, path string) locks.InterProcessLock {
	tb.Helper()
	return newMutex(tb, client, path)
}

func openHandoff(tb testing.TB, client *framework.Framework, path string) locks.InterProcessLock {
	tb.Helper()
	return newMutex(tb, client, path, locks.WithLocalHandoff(10))
}

func openDelayed(tb testing.TB, client *framework.Framework, path string) locks.InterProcessLock {
	tb.Helper()
	return newMutex(tb, client, path, locks.WithLockDelay(whileItHolds))
}

func openRead(tb testing.TB, client *framework.Framework, path string) locks.InterProcessLock {
	tb.Helper()
	return newReadWrite(tb, client, path).ReadLock()
}

func openWrite(tb testing.TB, client *framework.Framework, path string) locks.InterProcessLock {
	tb.Helper()
	return newReadWrite(tb, client, path).WriteLock()
}

func openSemaphore(tb testing.TB, client *framework.Framework, path string) locks.InterProcessLock {
	tb.Helper()
	s := must.Get(locks.NewInterProcessSemaphore(client, path, locks.FixedLeases(1)))(tb)
	return s
}

func openSemaphoreOf1(tb testing.TB, client *framework.Framework, path string) locks.InterProcessLock {
	tb.Helper()
	return newSemaphore(tb, client, path, locks.FixedLeases(1))
}

func openInternals(tb testing.TB, client *framework.Framework, path string) *locks.LockInternals {
	tb.Helper()
	const name = "own-"
	driver := locks.StandardLockInternalsDriver{StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: name}}
	l := must.Get(locks.NewLockInternals(client, driver, path, name, 1))(tb)
	return l
}

// declares names a method as the type of the package that declares it.
func (k lockKind) declares(method string) string {
	switch {
	case strings.HasPrefix(k.typ, "InterProcessSemaphore") && k.typ != "InterProcessSemaphore":
		return "permits." + method
	case method == "Participants" && (k.typ == "ReadLock" || k.typ == "WriteLock"):
		return k.typ + "." + method
	case method == "Do":
		return "lock.Do"
	default:
		return "lock." + method
	}
}

// calls returns the calls of a kind.
func (k lockKind) calls() []faultedCall {
	acquire, try := []string{k.declares("Acquire")}, []string{k.declares("TryAcquire")}
	calls := []faultedCall{
		{name: free, of: acquire, prepare: k.acquire(false)},
		{name: behind, of: acquire, prepare: k.acquire(true)},
		{name: tryFree, of: try, prepare: k.try(false)},
		{name: tryHeld, of: try, prepare: k.try(true), fails: true, may: failing},
		{name: again, of: acquire, prepare: k.reenter},
		{name: releasing, of: []string{"Lease.Release"}, prepare: k.release, may: losing},
		{name: doing, of: []string{k.declares("Do"), "Do"}, prepare: k.do, may: losing},
		{name: asking, of: []string{k.declares("Participants")}, prepare: k.participants},
	}
	calls = slices.DeleteFunc(calls, func(f faultedCall) bool { return k.requests[f.name] == 0 })
	for i := range calls {
		calls[i].requests = k.requests[calls[i].name]
		calls[i].name = k.typ + k.option + ": " + calls[i].name
	}
	return calls
}

// both opens the lock for the caller and for its rival.
func (k lockKind) both(c *faultCell) (ours, theirs locks.InterProcessLock) {
	rival := k.rival
	if rival == nil {
		rival = k.open
	}
	ours, theirs = k.open(c.t, c.ours, c.path), rival(c.t, c.theirs, c.path)
	c.again, c.rivals = []locks.InterProcessLock{ours}, []locks.InterProcessLock{theirs}
	return ours, theirs
}

func (k lockKind) acquire(behind bool) func(*faultCell) func(context.Context) error {
	return func(c *faultCell) func(context.Context) error {
		ours, theirs := k.both(c)
		if behind {
			lease := acquire(c.t, theirs)
			c.later = func() { release(c.t, lease) }
		}
		return func(ctx context.Context) error { return c.hold(ours.Acquire(ctx)) }
	}
}

func (k lockKind) try(held bool) func(*faultCell) func(context.Context) error {
	return func(c *faultCell) func(context.Context) error {
		ours, theirs := k.both(c)
		if held {
			lease := acquire(c.t, theirs)
			c.tidy = func() {
				require.NoError(c.t, lease.Err())
				release(c.t, lease)
			}
		}
		return func(ctx context.Context) error { return c.hold(ours.TryAcquire(ctx)) }
	}
}

func (k lockKind) release(c *faultCell) func(context.Context) error {
	ours, _ := k.both(c)
	lease := acquire(c.t, ours)
	time.Sleep(whileItHolds)
	return lease.Release
}

func (k lockKind) do(c *faultCell) func(context.Context) error {
	ours, _ := k.both(c)
	return func(ctx context.Context) error {
		return ours.(interface {
			Do(ctx context.Context, fn func(context.Context) error) error
		}).Do(ctx, func(ctx context.Context) error {
			select {
			case <-time.After(whileItHolds):
				return nil
			case <-ctx.Done():
				return errors.Join(ctx.Err(), context.Cause(ctx))
			}
		})
	}
}

func (k lockKind) participants(c *faultCell) func(context.Context) error {
	ours, _ := k.both(c)
	return c.participantsOf(ours.(queue).Participants, acquire(c.t, k.open(c.t, c.theirs, c.path)))
}

func (k lockKind) reenter(c *faultCell) func(context.Context) error {
	ours, _ := k.both(c)
	c.held = []*locks.Lease{acquire(c.t, ours)}
	return func(ctx context.Context) error { return c.hold(ours.Acquire(c.held[0].Context(ctx))) }
}

// faultedCalls returns all rows of the table.
func faultedCalls() []faultedCall {
	var calls []faultedCall
	for _, k := range lockKinds {
		calls = append(calls, k.calls()...)
	}
	return slices.Concat(calls, otherCalls)
}
