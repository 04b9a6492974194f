// SPDX-License-Identifier: Apache-2.0

// Command mutex writes a report while it holds a lock.
//
//	go run ./examples/devserver &
//	go run ./examples/mutex
package main

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	ctx := context.Background()
	client, err := framework.Connect(ctx, "127.0.0.1:2181") // or zk1:2181,zk2:2181,zk3:2181
	if err != nil {
		panic(err)
	}
	defer client.Close()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	if err != nil {
		panic(err)
	}
	err = mutex.Do(ctx, func(ctx context.Context) error { // waits for its turn
		fmt.Println("writing the report, alone")
		return ctx.Err() // ctx ends if the lock is lost
	})
	if err != nil {
		panic(err)
	}
}
