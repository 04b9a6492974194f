// SPDX-License-Identifier: Apache-2.0

package barriers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/testing/zkserver"
)

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// exampleClient returns a client of an embedded server. Programs connect to
// their ensemble: framework.Connect(ctx, "zk1:2181,zk2:2181,zk3:2181").
func exampleClient() (client *framework.Framework, closeAll func()) {
	server, err := zkserver.Start()
	check(err)
	client, err = framework.Connect(context.Background(), server.Addr())
	check(err)
	return client, func() { check(errors.Join(client.Close(), server.Close())) }
}

func ExampleDistributedDoubleBarrier() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	var wg sync.WaitGroup
	for range 3 { // three processes, in practice
		barrier, err := barriers.NewDistributedDoubleBarrier(client, "/barriers/load-test", 3)
		check(err)
		wg.Go(func() {
			check(barrier.Enter(ctx))
			// All begin here.
			check(barrier.Leave(ctx))
			// All have ended here.
		})
	}
	wg.Wait()
	fmt.Println("done")
	// Output: done
}

func ExampleDistributedBarrier() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	barrier, err := barriers.NewDistributedBarrier(client, "/barriers/maintenance")
	check(err)
	check(barrier.SetBarrier(ctx))

	check(barrier.RemoveBarrier(ctx)) // in another process, later

	check(barrier.WaitOnBarrier(ctx))
	fmt.Println("go on")
	// Output: go on
}
