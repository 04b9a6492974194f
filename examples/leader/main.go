// SPDX-License-Identifier: Apache-2.0

// Command leader works in one replica, and keeps the others ready.
//
//	go run ./examples/devserver &
//	go run ./examples/leader
//	go run ./examples/leader   # in another terminal: leads when the first one ends
//
// After a kill -9 of the first one, the other leads when the session times out. If both run under curatorctl guard, it
// leads within milliseconds.
package main

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
)

func main() {
	client, err := framework.Connect(context.Background(), "127.0.0.1:2181")
	if err != nil {
		panic(err)
	}
	defer client.Close()
	selector, err := leader.NewLeaderSelector(client, "/leaders/orders", leader.WithAutoRequeue())
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err = selector.Run(ctx, func(ctx context.Context) error { // called each time this replica leads
		fmt.Println("leading")
		<-ctx.Done() // work until the leadership ends
		return nil
	})
	fmt.Println("ended:", err)
}
