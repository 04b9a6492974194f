// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zkserver"
)

// check ends an example that cannot go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// exampleClient returns a client of an embedded server. Programs connect to their ensemble:
// framework.Connect(ctx, "zk1:2181,zk2:2181,zk3:2181").
func exampleClient() (client *framework.Framework, closeAll func()) {
	server, err := zkserver.Start()
	check(err)
	client, err = framework.Connect(context.Background(), server.Addr())
	check(err)
	return client, func() { check(errors.Join(client.Close(), server.Close())) }
}

func ExampleScheduler_Run() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx, cancel := context.WithCancel(context.Background())
	var first time.Time
	s, err := schedule.New(client, "/cron", schedule.Job{
		Name: "sync", Schedule: schedule.Every(100 * time.Millisecond),
		Run: func(_ context.Context, tick schedule.Tick) error {
			switch {
			case first.IsZero():
				first = tick.Time
				fmt.Println("the first tick, attempt", tick.Attempt)
			case tick.Time.Sub(first) >= 300*time.Millisecond:
				cancel() // at the end of the program
			}
			return nil
		},
	})
	check(err)
	err = s.Run(ctx)
	fmt.Println(errors.Is(err, context.Canceled))
	// Output:
	// the first tick, attempt 1
	// true
}
