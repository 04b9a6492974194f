// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// A lock that is shared with Python: kazoo's Lock calls its nodes <32 digits>__lock__
// and a number.
func ExampleLockInternals_kazoo() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	// A node that stays, unlike the container that a lock of ours would make.
	_, err := client.Create(ctx, "/locks/report", nil, framework.CreatingParentsIfNeeded())
	check(err)

	const name = "__lock__"
	driver := locks.StandardLockInternalsDriver{
		StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: name},
	}
	lock, err := locks.NewLockInternals(client, driver, "/locks/report", name, 1)
	check(err)

	// As client.Lock("/locks/report").acquire() does in Python.
	python, err := client.Create(ctx, "/locks/report/0c8f7ab1f7a54ad3b8cb1b1c4ef2bd3d"+name, nil,
		framework.WithMode(framework.EphemeralSequential))
	check(err)
	_, err = lock.TryAcquire(ctx)
	fmt.Println("held:", errors.Is(err, locks.ErrNotAcquired))

	check(client.Delete(ctx, python))
	lease, err := lock.Acquire(ctx)
	fmt.Println(err)
	fmt.Println(lease.Release(ctx))
	// Output:
	// held: true
	// <nil>
	// <nil>
}
