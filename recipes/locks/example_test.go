// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
)

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// exampleClient returns a client of an embedded server. Programs connect to their
// ensemble: framework.Connect(ctx, "zk1:2181,zk2:2181,zk3:2181").
func exampleClient() (client *framework.Framework, closeAll func()) {
	server, err := zkserver.Start()
	check(err)
	client, err = framework.Connect(context.Background(), server.Addr())
	check(err)
	return client, func() {
		check(errors.Join(client.Close(), server.Close()))
	}
}

func ExampleInterProcessMutex_Do() {
	client, closeAll := exampleClient()
	defer closeAll()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	check(err)
	err = mutex.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("writing the report, alone")
		return ctx.Err() // not nil if the lock has been lost
	})
	fmt.Println(err)
	// Output:
	// writing the report, alone
	// <nil>
}

func ExampleInterProcessMutex_Acquire() {
	client, closeAll := exampleClient()
	defer closeAll()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	check(err)
	ctx := context.Background()
	lease, err := mutex.Acquire(ctx)
	check(err)

	// Any other context is another owner, and waits.
	short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err = mutex.Acquire(short)
	fmt.Println(errors.Is(err, locks.ErrNotAcquired), errors.Is(err, context.DeadlineExceeded))

	// The lease's own context re-enters.
	again, err := mutex.Acquire(lease.Context(ctx))
	check(err)
	fmt.Println(again.Token() == lease.Token())

	fmt.Println(again.Release(ctx), lease.Release(ctx))
	// Output:
	// true true
	// true
	// <nil> <nil>
}

func ExampleInterProcessMutex_TryAcquire() {
	client, closeAll := exampleClient()
	defer closeAll()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	check(err)
	ctx := context.Background()
	lease, err := mutex.TryAcquire(ctx)
	check(err)
	_, err = mutex.TryAcquire(ctx)
	fmt.Println("held:", errors.Is(err, locks.ErrNotAcquired))
	fmt.Println(lease.Release(ctx))
	// Output:
	// held: true
	// <nil>
}

// Another client deletes the holder's node: the work under the lease ends, and its context
// says why.
func ExampleLease_Context() {
	client, closeAll := exampleClient()
	defer closeAll()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	check(err)
	lease, err := mutex.Acquire(context.Background())
	check(err)
	ctx := lease.Context(context.Background())

	check(client.Delete(context.Background(), lease.Path()))
	<-ctx.Done()
	var lost *locks.LostError
	if errors.As(context.Cause(ctx), &lost) {
		fmt.Println(lost.Reason)
	}
	// Output:
	// node_deleted
}

// A change that the server applies only while the lease holds.
func ExampleLease_Transact() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	_, err := client.Create(ctx, "/report", nil)
	check(err)
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	check(err)
	lease, err := mutex.Acquire(ctx)
	check(err)
	_, err = lease.Transact(ctx, framework.SetDataOp("/report", []byte("final")))
	fmt.Println(err)

	check(lease.Release(ctx))
	_, err = lease.Transact(ctx, framework.SetDataOp("/report", []byte("too late")))
	fmt.Println(errors.Is(err, locks.ErrReleased))
	// Output:
	// <nil>
	// true
}

// An operator asks for the lock, and its owner gives it back when it suits.
func ExampleAttemptRevoke() {
	client, closeAll := exampleClient()
	defer closeAll()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	check(err)
	ctx := context.Background()
	lease, err := mutex.Acquire(ctx)
	check(err)

	participants, err := mutex.Participants(ctx)
	check(err)
	check(locks.AttemptRevoke(ctx, client, participants[0].Path))

	<-lease.Revoked()
	fmt.Println("asked for; held all the same:", lease.Err() == nil)
	fmt.Println(lease.Release(ctx))
	// Output:
	// asked for; held all the same: true
	// <nil>
}

// The listener stays for the life of the lock, and hears of each lease that another client
// asks for.
func ExampleInterProcessMutex_MakeRevocable() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	released := make(chan error, 1)
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	check(err)
	mutex.MakeRevocable(func(lease *locks.Lease) { released <- lease.Release(ctx) })
	lease, err := mutex.Acquire(ctx)
	check(err)
	check(locks.AttemptRevoke(ctx, client, lease.Path()))
	next, err := mutex.Acquire(ctx)
	check(err)
	fmt.Println("asked for; released:", <-released)
	fmt.Println(next.Release(ctx))
	// Output:
	// asked for; released: <nil>
	// <nil>
}

func ExampleInterProcessMutex_Participants() {
	client, closeAll := exampleClient()
	defer closeAll()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report", locks.WithLabel("replica 1"))
	check(err)
	ctx := context.Background()
	lease, err := mutex.Acquire(ctx)
	check(err)
	participants, err := mutex.Participants(ctx)
	check(err)
	for _, p := range participants {
		fmt.Println(p.Label, p.PID == os.Getpid(), p.Position, p.Holds, p.Token == lease.Token())
	}
	fmt.Println(lease.Release(ctx))
	// Output:
	// replica 1 true 0 true true
	// <nil>
}

func ExampleInterProcessReadWriteLock() {
	client, closeAll := exampleClient()
	defer closeAll()
	lock, err := locks.NewInterProcessReadWriteLock(client, "/locks/catalogue")
	check(err)
	ctx := context.Background()
	writer, err := lock.WriteLock().Acquire(ctx)
	check(err)

	// The writer becomes a reader: no other writer gets in between.
	reader, err := lock.ReadLock().Acquire(writer.Context(ctx))
	check(err)
	check(writer.Release(ctx))
	another, err := lock.ReadLock().TryAcquire(ctx)
	fmt.Println("readers share:", err)
	_, err = lock.WriteLock().TryAcquire(ctx)
	fmt.Println("a writer does not:", errors.Is(err, locks.ErrNotAcquired))

	// A reader cannot become a writer.
	_, err = lock.WriteLock().Acquire(reader.Context(ctx))
	fmt.Println(err)
	fmt.Println(another.Release(ctx), reader.Release(ctx))
	// Output:
	// readers share: <nil>
	// a writer does not: true
	// locks: acquire /locks/catalogue: a read lock cannot be upgraded: the writer would wait for its own reader
	// <nil> <nil>
}

func ExampleInterProcessSemaphoreV2() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	licences, err := locks.NewSharedLeases(client, "/licences/count", 3)
	check(err)
	semaphore, err := locks.NewInterProcessSemaphoreV2(client, "/licences", licences)
	check(err)

	two, err := semaphore.AcquireN(ctx, 2)
	fmt.Println(len(two), err)
	_, err = semaphore.TryAcquireN(ctx, 2)
	fmt.Println("two more:", errors.Is(err, locks.ErrNotAcquired))
	_, err = semaphore.AcquireN(ctx, 4)
	fmt.Println("four, ever:", errors.Is(err, locks.ErrTooManyLeases))

	check(licences.Set(ctx, 4)) // the waiter is let in
	more, err := semaphore.TryAcquireN(ctx, 2)
	fmt.Println(len(more), err)
	for _, lease := range append(two, more...) {
		check(lease.Release(ctx))
	}
	// Output:
	// 2 <nil>
	// two more: true
	// four, ever: true
	// 2 <nil>
}

func ExampleInterProcessSemaphoreMutex() {
	client, closeAll := exampleClient()
	defer closeAll()
	mutex, err := locks.NewInterProcessSemaphoreMutex(client, "/locks/report")
	check(err)
	err = mutex.Do(context.Background(), func(ctx context.Context) error {
		_, err := mutex.TryAcquire(ctx) // with an InterProcessMutex this re-enters
		return err
	})
	fmt.Println("held:", errors.Is(err, locks.ErrNotAcquired))
	// Output:
	// held: true
}

func ExampleInterProcessMultiLock() {
	client, closeAll := exampleClient()
	defer closeAll()
	from, err := locks.NewInterProcessMutex(client, "/accounts/17")
	check(err)
	to, err := locks.NewInterProcessMutex(client, "/accounts/4")
	check(err)
	transfer, err := locks.NewInterProcessMultiLock(from, to)
	check(err)
	ctx := context.Background()
	lease, err := transfer.Acquire(ctx) // in the order of the paths, in either direction
	check(err)
	fmt.Println(len(lease.Tokens()), lease.Err())
	_, err = to.TryAcquire(ctx)
	fmt.Println("held:", errors.Is(err, locks.ErrNotAcquired))
	fmt.Println(lease.Release(ctx))
	// Output:
	// 2 <nil>
	// held: true
	// <nil>
}

// A recipe of one's own: at most two may work at a time. The standard driver with
// two leases is all it takes; another driver may create other nodes, or order them
// in another way.
func ExampleLockInternals() {
	client, closeAll := exampleClient()
	defer closeAll()
	driver := locks.StandardLockInternalsDriver{
		StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: "worker-"},
	}
	pool, err := locks.NewLockInternals(client, driver, "/pools/convert", "worker-", 2)
	check(err)
	ctx := context.Background()
	first, err := pool.TryAcquire(ctx)
	fmt.Println("first:", err)
	second, err := pool.TryAcquire(ctx)
	fmt.Println("second:", err)
	_, err = pool.TryAcquire(ctx)
	fmt.Println("third is refused:", errors.Is(err, locks.ErrNotAcquired))
	fmt.Println(first.Release(ctx), second.Release(ctx))
	// Output:
	// first: <nil>
	// second: <nil>
	// third is refused: true
	// <nil> <nil>
}
