// SPDX-License-Identifier: Apache-2.0

package slots_test

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/x/slots"
	"github.com/gocurator/curator/testing/zkserver"
)

// Two processes take numbers, and a third finds none.
func Example() {
	server, err := zkserver.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()
	client, err := framework.Connect(ctx, server.Addr())
	if err != nil {
		panic(err)
	}
	defer client.Close()

	numbers, err := slots.New(client, "/ids/nodes", 2)
	if err != nil {
		panic(err)
	}
	first, err := numbers.Take(ctx)
	if err != nil {
		panic(err)
	}
	second, err := numbers.Take(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(first.Number(), second.Number())
	_, err = numbers.TryTake(ctx)
	fmt.Println(err)
	fmt.Println(first.Release(ctx), second.Release(ctx))
	// Output:
	// 0 1
	// slots: try: no number is free of the 2 at /ids/nodes: 2 are held
	// <nil> <nil>
}
