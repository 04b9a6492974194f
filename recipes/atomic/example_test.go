// SPDX-License-Identifier: Apache-2.0

package atomic_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/atomic"
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

func ExampleDistributedAtomicLong() {
	client, closeAll := exampleClient()
	defer closeAll()
	counter, err := atomic.NewDistributedAtomicLong(client, "/counters/orders")
	check(err)

	value, err := counter.Add(context.Background(), 5)
	check(err)

	fmt.Println(value.Pre, value.Post)
	// Output: 0 5
}

func ExampleCachedAtomicLong() {
	client, closeAll := exampleClient()
	defer closeAll()
	counter, err := atomic.NewDistributedAtomicLong(client, "/ids")
	check(err)
	ids, err := atomic.NewCachedAtomicLong(counter, 100) // one write for a hundred ids
	check(err)

	for range 3 {
		id, err := ids.Next(context.Background())
		check(err)
		fmt.Println(id)
	}
	// Output:
	// 1
	// 2
	// 3
}

func ExampleDistributedAtomicValue_Update() {
	client, closeAll := exampleClient()
	defer closeAll()
	names, err := atomic.NewDistributedAtomicValue(client, "/names")
	check(err)

	for _, name := range []string{"ada", "grace"} {
		_, err := names.Update(context.Background(), func(pre []byte) ([]byte, error) {
			return append(pre, name+";"...), nil
		})
		check(err)
	}

	all, err := names.Get(context.Background())
	check(err)
	fmt.Printf("%s\n", all)
	// Output: ada;grace;
}
