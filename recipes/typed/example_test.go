// SPDX-License-Identifier: Apache-2.0

package typed_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/typed"
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

type limits struct {
	Requests int
	Burst    int
}

func ExampleNode_Update() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	node, err := typed.NewNode(client, "/limits/search", typed.JSON[limits]())
	check(err)
	_, err = node.Create(ctx, limits{Requests: 100}, framework.CreatingParentsIfNeeded())
	check(err)

	check(node.Update(ctx, func(l *limits) error {
		l.Burst = 2 * l.Requests
		return nil
	}))
	value, stat, err := node.Get(ctx)
	fmt.Printf("%+v, version %d, %v\n", value, stat.Version, err)
	// Output:
	// {Requests:100 Burst:200}, version 1, <nil>
}

func ExampleFolder() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	folder, err := typed.NewFolder(client, "/limits/{service}", typed.JSON[limits]())
	check(err)
	node, err := folder.Node("search")
	check(err)
	_, err = node.Create(ctx, limits{Requests: 100}, framework.CreatingParentsIfNeeded())
	check(err)

	names, err := folder.Children(ctx)
	fmt.Println(node.Path(), names, err)
	// Output:
	// /limits/search [search] <nil>
}
