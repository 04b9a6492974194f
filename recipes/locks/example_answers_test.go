// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// runUnlessHeld tells a lock that is held from an outage.
func runUnlessHeld(ctx context.Context, mutex *locks.InterProcessMutex, work func(context.Context) error) error {
	lease, err := mutex.TryAcquire(ctx)
	switch {
	case errors.Is(err, locks.ErrNotAcquired):
		return nil // another replica is at work
	case err != nil:
		return err // an outage: whether another replica is at work is unknown
	}
	defer lease.Release(ctx)
	return work(lease.Context(ctx))
}

// outcomeOf says what has become of work that ran under a lock.
func outcomeOf(err error) string {
	var lost *locks.LostError
	var release *locks.ReleaseError
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &lost):
		return "the lock was lost (" + string(lost.Reason) + "): the work may be half done"
	case errors.As(err, &release):
		return "done, but the lock may block others until the session ends"
	case errors.Is(err, locks.ErrNotAcquired):
		return "not done, another client had the lock"
	case errors.Is(err, framework.ErrNotConnected):
		return "not done, ZooKeeper is out of reach"
	default:
		return "failed: " + err.Error()
	}
}

// The answers of an acquisition and of a release, and what to do about them.
func Example_answers() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	check(err)
	held, err := mutex.Acquire(ctx)
	check(err)
	fmt.Println(runUnlessHeld(ctx, mutex, func(context.Context) error { panic("beside the holder") }))
	check(held.Release(ctx))

	fmt.Println(outcomeOf(mutex.Do(ctx, func(context.Context) error { return nil })))
	fmt.Println(outcomeOf(mutex.Do(ctx, func(ctx context.Context) error {
		check(client.Delete(context.Background(), locks.LeaseFrom(ctx).Path()))
		<-ctx.Done()
		return context.Cause(ctx)
	})))
	// Output:
	// <nil>
	// done
	// the lock was lost (node_deleted): the work may be half done
}

// onlyCreator gives every znode to the client that has created it, and lets all others read.
type onlyCreator struct{}

func (onlyCreator) DefaultACL() []framework.ACL {
	return append(framework.CreatorAllACL(), framework.ReadACL()...)
}

func (onlyCreator) ACLForPath(string) []framework.ACL { return nil }

// A client with the settings of a service.
func connectInProduction(ctx context.Context, servers, password string, log *slog.Logger) (*framework.Framework, error) {
	return framework.Connect(ctx, servers,
		framework.WithSessionTimeout(10*time.Second),
		framework.WithErrorPolicy(framework.QuorumErrorPolicy),
		framework.WithAuth("digest", []byte("orders:"+password)),
		framework.WithACLProvider(onlyCreator{}),
		framework.WithLogger(log))
}

func Example_production() {
	open, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	client, err := connectInProduction(ctx, open.Servers()[0], "secret", slog.New(slog.DiscardHandler))
	check(err)
	mutex, err := locks.NewInterProcessMutex(client, "/orders/locks/report")
	check(err)
	lease, err := mutex.Acquire(ctx)
	check(err)
	_, err = open.Get(ctx, lease.Path())
	fmt.Println("others read it:", err == nil)
	fmt.Println("others delete it:", !errors.Is(open.Delete(ctx, lease.Path()), framework.ErrNoAuth))
	check(lease.Release(ctx))
	check(client.Close())
	// Output:
	// others read it: true
	// others delete it: false
}
