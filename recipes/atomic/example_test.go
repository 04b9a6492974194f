package atomic_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/testing/zkserver"
)

func ExampleDistributedAtomicLong() {
	server, err := zkserver.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client, err := framework.Connect(ctx, server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	counter, err := atomic.NewDistributedAtomicLong(client, "/counters/orders")
	if err != nil {
		log.Fatal(err)
	}

	value, err := counter.Add(ctx, 5)
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(value.Pre, value.Post)
	// Output: 0 5
}
