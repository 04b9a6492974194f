// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// Goroutines exclude each other when each acquires with a context that carries no lease.
// The context of Do would let all of them in: it re-enters. WithoutReentry makes that
// mistake an error. The same holds for the context of an errgroup.Group.
func ExampleWithoutReentry() {
	client, closeAll := exampleClient()
	defer closeAll()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report", locks.WithoutReentry())
	check(err)
	ctx := context.Background()
	pages := 0
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			check(mutex.Do(ctx, func(context.Context) error {
				pages++ // one goroutine at a time
				return nil
			}))
		})
	}
	group.Wait()
	fmt.Println(pages, "pages")

	err = mutex.Do(ctx, func(ctx context.Context) error {
		return mutex.Do(ctx, func(context.Context) error { return nil }) // with the context of Do
	})
	fmt.Println("refused:", errors.Is(err, locks.ErrReentered))
	// Output:
	// 4 pages
	// refused: true
}

// Inside Do the lease is in the context: here it guards a write, which the server
// applies only if the lock is still held.
func ExampleLeaseFrom() {
	client, closeAll := exampleClient()
	defer closeAll()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	check(err)
	_, err = client.Create(context.Background(), "/report", nil)
	check(err)
	err = mutex.Do(context.Background(), func(ctx context.Context) error {
		_, err := locks.LeaseFrom(ctx).Transact(ctx, framework.SetDataOp("/report", []byte("written")))
		return err
	})
	fmt.Println(err)
	data, err := client.Get(context.Background(), "/report")
	check(err)
	fmt.Printf("%s\n", data)
	// Output:
	// <nil>
	// written
}
