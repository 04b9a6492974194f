// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/internal/options"
)

// InterProcessMultiLock is several locks as one: all of them are held, or none. It is
// Curator's class of that name, but has one deadline for all members and stops at the first
// member that fails.
//
// The members are acquired in the order of their paths at the server, chroot and namespace
// included, in whatever order they are given. So two multi-locks with members in common
// cannot wait for each other in a circle, even when they name the members through different
// views or clients of one ensemble. Three cases remain with the caller:
//
//   - Members with equal paths on different ensembles are acquired in the given order.
//   - A lock that is not of this package, and does not embed one that is, is ordered by its
//     Path method, which must then return the path at the server.
//   - A semaphore given twice asks for two permits, one after the other. Two such
//     multi-locks can each wait for the other's permit; use
//     [InterProcessSemaphoreV2.AcquireN].
//
// Each member is acquired with the ownership of the members before it: a mutex given twice
// re-enters, and both sides of a read/write lock are acquired as a downgrade. It is safe
// for concurrent use.
type InterProcessMultiLock struct{ members []InterProcessLock }

// NewInterProcessMultiLock returns the lock of all members. They may be of different
// kinds, on different clients, and need not be of this package.
func NewInterProcessMultiLock(members ...InterProcessLock) (*InterProcessMultiLock, error) {
	if len(members) == 0 {
		return nil, errors.New("locks: a multi-lock without members, expected one or more")
	}
	if i := slices.IndexFunc(members, func(m InterProcessLock) bool { return options.IsNil(m) }); i >= 0 {
		return nil, fmt.Errorf("locks: member %d of a multi-lock is nil, expected an InterProcessLock", i)
	}
	sorted := slices.Clone(members)
	slices.SortStableFunc(sorted, func(a, b InterProcessLock) int { return strings.Compare(rankOf(a), rankOf(b)) })
	return &InterProcessMultiLock{sorted}, nil
}

// rankOf returns the key of a member in the order that all multi-locks share.
func rankOf(lock InterProcessLock) string {
	if ours, ok := lock.(interface{ rank() string }); ok {
		return ours.rank()
	}
	return lock.Path()
}

// rank returns the path at the server and the lock name: locks of several kinds at one path
// do not exclude each other, so they need an order too.
func (l *lock) rank() string { return l.fullPath + "\x00" + l.lockName }

func (p permits) rank() string { return p.leases.client.FullPath(p.path) + "\x00" + leaseName }

// rank is greater than the writer's: a writer can become a reader, a reader cannot become a
// writer.
func (r *ReadLock) rank() string { return r.fullPath + "\x00" + writeName + "\x00" }

// Acquire blocks until all members are held. The context bounds the whole wait. When a
// member fails, or is lost during the wait for a later one, Acquire releases the acquired
// members in reverse and returns that member's error.
func (m *InterProcessMultiLock) Acquire(ctx context.Context) (*MultiLease, error) {
	return m.acquire(ctx, InterProcessLock.Acquire)
}

// TryAcquire acquires all members if all are free, and waits for none. Otherwise it releases
// the acquired members in reverse and returns the first error, which matches
// [ErrNotAcquired] if a member was taken.
func (m *InterProcessMultiLock) TryAcquire(ctx context.Context) (*MultiLease, error) {
	return m.acquire(ctx, InterProcessLock.TryAcquire)
}

func (m *InterProcessMultiLock) acquire(
	ctx context.Context, one func(InterProcessLock, context.Context) (*Lease, error),
) (*MultiLease, error) {
	held := ctx
	leases, err := allOrNone(ctx, len(m.members), func(i int) (*Lease, error) {
		// With the ownership of the members before it: losing one of them ends the wait.
		lease, err := leaseOf(held, m.members[i], one)
		if err == nil {
			held = lease.Context(held) //nolint:fatcontext // one for each lease is meant
		}
		return lease, err
	})
	if err != nil {
		return nil, err
	}
	multi := &MultiLease{leases: leases}
	multi.done = multi.Context(context.WithoutCancel(ctx)).Done()
	return multi, nil
}

// Do runs fn while all members are held; see [Do]. The context of fn ends when any
// of them is lost.
func (m *InterProcessMultiLock) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, m.members[0].Path(), m.Acquire, fn)
}

// Participants returns the contenders of all members, member by member in the order of
// their acquisition; see [LockInternals.Participants]. A member that is not of this package
// is included if it has the same method.
func (m *InterProcessMultiLock) Participants(ctx context.Context) ([]Participant, error) {
	var all []Participant
	for _, member := range m.members {
		inspected, ok := member.(interface {
			Participants(ctx context.Context) ([]Participant, error)
		})
		if !ok {
			continue
		}
		participants, err := inspected.Participants(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, participants...)
	}
	return all, nil
}

// MultiLease is the hold on all members of an [InterProcessMultiLock]. It is valid
// while all of their leases are. Its methods are safe for concurrent use.
type MultiLease struct {
	leases []*Lease
	done   <-chan struct{}
}

// Done returns a channel that is closed when the first of the leases ends, by its release
// or loss.
func (m *MultiLease) Done() <-chan struct{} { return m.done }

// Leases returns the leases of the members, in the order of their acquisition.
func (m *MultiLease) Leases() []*Lease { return slices.Clone(m.leases) }

// Tokens returns the fencing tokens of the members, in the order of their acquisition. Each
// token is for the resource that its member protects.
func (m *MultiLease) Tokens() []int64 {
	tokens := make([]int64, len(m.leases))
	for i, lease := range m.leases {
		tokens[i] = lease.Token()
	}
	return tokens
}

// Err returns nil while all leases are valid, and otherwise the error of the first, in the
// order of their acquisition, that is not; see [Lease.Err].
func (m *MultiLease) Err() error {
	for _, lease := range m.leases {
		if err := lease.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Context derives a context for work under all the locks. It carries the ownership of all of
// them. It ends with ctx, or with the first lease that ends and that lease's error as its
// cause. The end of a lease may reach the context a moment later than [MultiLease.Err].
func (m *MultiLease) Context(ctx context.Context) context.Context {
	for _, lease := range m.leases {
		ctx = lease.Context(ctx) //nolint:fatcontext // one for each lease is meant
	}
	return ctx
}

// Release releases all members, even when one fails, and returns their errors joined; see
// [ReleaseAll]. It is idempotent, and safe on a nil lease.
func (m *MultiLease) Release(ctx context.Context) error {
	if m == nil {
		return nil
	}
	return ReleaseAll(ctx, m.leases...)
}
