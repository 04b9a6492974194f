// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// End the session of a client that holds a lock, and see what its lease says. In a test, NewServer, Client and KillSession
// do the same with less to write.
func ExampleEndSession() {
	ctx := context.Background()
	server, err := zkserver.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, err := framework.Connect(ctx, server.Addr())
	if err != nil {
		panic(err)
	}
	defer client.Close()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	if err != nil {
		panic(err)
	}
	lease, err := mutex.Acquire(ctx)
	if err != nil {
		panic(err)
	}

	if _, err := zktest.EndSession(ctx, client); err != nil {
		panic(err)
	}
	<-lease.Done()
	var lost *locks.LostError
	fmt.Println("lost:", errors.As(lease.Err(), &lost))
	// Output: lost: true
}
