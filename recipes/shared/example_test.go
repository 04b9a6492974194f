// SPDX-License-Identifier: Apache-2.0

package shared_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/shared"
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

func ExampleSharedCount() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	limit, err := shared.NewSharedCount(client, "/limits/orders", 10)
	check(err)
	check(limit.Start(ctx))
	defer func() { check(limit.Close()) }()

	now, err := limit.VersionedCount()
	check(err)
	ok, err := limit.TrySetCount(ctx, now, now.Count*2)
	check(err)

	n, err := limit.Count()
	check(err)
	fmt.Println(ok, n)
	// Output: true 20
}
