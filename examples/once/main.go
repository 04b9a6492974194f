// SPDX-License-Identifier: Apache-2.0

// Command once runs a job once per day, in one replica of many.
//
//	go run ./examples/devserver &
//	go run ./examples/once     # runs the job
//	go run ./examples/once     # finds it done
//
// A lock alone would make every replica run it, one after the other.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
)

func main() {
	ctx := context.Background()
	client, err := framework.Connect(ctx, "127.0.0.1:2181")
	if err != nil {
		panic(err)
	}
	defer client.Close()
	once, err := leader.NewOnce(client, "/jobs/report") // a lock would let every replica run it, in turn
	if err != nil {
		panic(err)
	}
	today := time.Now().UTC().Format(time.DateOnly)
	ran, err := once.Do(ctx, today, func(ctx context.Context) error {
		fmt.Println("writing the report") // if it fails, another replica may run it
		return ctx.Err()
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("ran here:", ran)
}
