// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/queues"
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

func ExampleDistributedQueue() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	queue, err := queues.NewDistributedQueue(client, "/queues/mails", queues.WithLockPath("/queues/mails-locks"))
	check(err)
	for _, mail := range []string{"to Ada", "to Grace", "stop"} {
		check(queue.Put(ctx, []byte(mail)))
	}

	for item, err := range queue.Items(ctx) { // until ctx ends
		check(err)
		if string(item.Data) == "stop" {
			break // which leaves the item in the queue
		}
		fmt.Printf("%s\n", item.Data)
	}
	// Output:
	// to Ada
	// to Grace
}

func ExampleDistributedPriorityQueue() {
	client, closeAll := exampleClient()
	defer closeAll()
	queue, err := queues.NewDistributedPriorityQueue(client, "/queues/orders")
	check(err)
	check(queue.Put(context.Background(), []byte("restock"), 10))
	check(queue.Put(context.Background(), []byte("ship"), 1))

	ctx, stop := context.WithCancel(context.Background())
	left := 2
	err = queue.Consume(ctx, func(_ context.Context, item []byte) error {
		fmt.Printf("%s\n", item)
		if left--; left == 0 {
			stop()
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// ship
	// restock
	// queues: consume /queues/orders: context canceled
}

func ExampleQueueSharder() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx, stop := context.WithCancel(context.Background())
	open := func(path string) (*queues.DistributedQueue, error) { return queues.NewDistributedQueue(client, path) }
	sharder, err := queues.NewQueueSharder(client, open, "/queues/clicks", "/queues/clicks-leader", queues.WithNewQueueThreshold(1000))
	check(err)
	check(sharder.Start(ctx))
	defer func() { check(sharder.Close()) }()

	queue, err := sharder.Queue() // for each item
	check(err)
	check(queue.Put(ctx, []byte("a click")))

	err = sharder.Consume(ctx, func(_ context.Context, item []byte) error {
		fmt.Printf("%s\n", item)
		stop()
		return nil
	})
	fmt.Println(err)
	// Output:
	// a click
	// queues: consume the queues of /queues/clicks: context canceled
}

func ExampleSimpleDistributedQueue() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	queue, err := queues.NewSimpleDistributedQueue(client, "/queues/jobs")
	check(err)
	check(queue.Offer(ctx, []byte("backup")))

	job, err := queue.Take(ctx) // waits while the queue is empty
	check(err)
	_, err = queue.Poll(ctx)
	fmt.Printf("%s, then %v\n", job, errors.Is(err, queues.ErrEmpty))
	// Output: backup, then true
}
