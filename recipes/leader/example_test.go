// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
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

func ExampleLeaderLatch() {
	client, closeAll := exampleClient()
	defer closeAll()
	latch, err := leader.NewLeaderLatch(client, "/orders/leader", leader.WithID("orders-1"))
	check(err)
	check(latch.Start())

	leadership, err := latch.Await(context.Background())
	check(err)
	ctx := leadership.Context(context.Background()) // ends before another one can lead
	who, _, err := latch.Leader(ctx)
	check(err)
	fmt.Println(who.Identity, "leads:", latch.HasLeadership())

	check(latch.Close())
	fmt.Println("after Close:", ctx.Err())
	// Output:
	// orders-1 leads: true
	// after Close: context canceled
}

func ExampleLeaderSelector_Run() {
	client, closeAll := exampleClient()
	defer closeAll()
	selector, err := leader.NewLeaderSelector(client, "/orders/leader", leader.WithAutoRequeue())
	check(err)
	terms := 0

	err = selector.Run(context.Background(), func(context.Context) error {
		if terms++; terms == 3 {
			return leader.ErrStop
		}
		return nil
	})

	fmt.Println(terms, err)
	// Output: 3 <nil>
}

func ExampleLeaderLatch_Observe() {
	client, closeAll := exampleClient()
	defer closeAll()
	latch, err := leader.NewLeaderLatch(client, "/orders/leader", leader.WithID("orders-1"))
	check(err)

	for who, err := range latch.Observe(context.Background()) {
		check(err)
		if who == nil {
			fmt.Println("no leader")
			check(latch.Start())
			continue
		}
		fmt.Println(who.Identity)
		break
	}
	check(latch.Close())
	// Output:
	// no leader
	// orders-1
}

func ExampleOnce_Do() {
	client, closeAll := exampleClient()
	defer closeAll()
	once, err := leader.NewOnce(client, "/jobs/report")
	check(err)
	report := func(context.Context) error {
		fmt.Println("writing the report")
		return nil
	}

	for range 2 { // on two replicas, say
		ran, err := once.Do(context.Background(), "2026-11-22", report)
		check(err)
		fmt.Println(ran)
	}
	// Output:
	// writing the report
	// true
	// false
}
