// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
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

// Keep a tree in memory, and read your own write.
func Example() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	services, err := cache.NewCuratorCache(client, "/services")
	check(err)
	defer services.Close() // the error is always nil
	check(services.Start())

	_, err = client.Create(ctx, "/services/search", []byte("10.0.0.1:80"), framework.CreatingParentsIfNeeded())
	check(err)
	check(services.Fresh(ctx))
	data, found := services.Get("/services/search")
	fmt.Println(string(data.Data), found, services.Size())
	// Output:
	// 10.0.0.1:80 true 2
}

// Keep two levels of a tree, without what is temporary.
func ExampleWithSelector() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	for _, path := range []string{"/services/search/node-1/metrics", "/services/search/node-2", "/services/tmp-17/node-1"} {
		_, err := client.Create(ctx, path, nil, framework.CreatingParentsIfNeeded())
		check(err)
	}
	c, err := cache.NewCuratorCache(client, "/services", cache.WithMaxDepth(2), cache.WithSelector(cache.TreeCacheSelector{
		AcceptChild: func(path string) bool { return !strings.HasPrefix(path, "/services/tmp-") },
	}))
	check(err)
	defer c.Close() // the error is always nil
	check(c.Start())
	check(c.Fresh(ctx))
	fmt.Println(c.Size(), "znodes")
	for name := range c.Children("/services/search") {
		fmt.Println(name)
	}
	// Unordered output:
	// 4 znodes
	// node-1
	// node-2
}

// Keep the members of a group, as Curator's PathChildrenCache does.
func ExampleWithChildrenOnly() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	_, err := client.Create(ctx, "/workers/a", []byte("10.0.0.1"), framework.CreatingParentsIfNeeded())
	check(err)
	c, err := cache.NewCuratorCache(client, "/workers", cache.WithChildrenOnly())
	check(err)
	defer c.Close() // the error is always nil
	check(c.Start())
	check(c.Fresh(ctx))
	for name, data := range c.Children("/workers") {
		fmt.Println(name, string(data.Data))
	}
	// Output:
	// a 10.0.0.1
}

func ExampleCuratorCache_Listen() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	c, err := cache.NewCuratorCache(client, "/services")
	check(err)
	defer c.Close() // the error is always nil
	told := make(chan cache.Event, 10)
	c.Listen(func(e cache.Event) { told <- e }, cache.For(cache.NodeCreated, cache.NodeDeleted), cache.AfterInitialized())
	check(c.Start())
	check(c.Fresh(ctx))

	_, err = client.Create(ctx, "/services", nil)
	check(err)
	check(c.Fresh(ctx))
	check(client.Delete(ctx, "/services"))
	for range 2 {
		e := <-told
		fmt.Println(e.Type, e.Path)
	}
	// Output:
	// NODE_CREATED /services
	// NODE_DELETED /services
}

func ExampleCuratorCache_WaitFor() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	c, err := cache.NewCuratorCache(client, "/ready", cache.SingleNodeCache())
	check(err)
	defer c.Close() // the error is always nil
	check(c.Start())
	created := make(chan error, 1)
	go func() {
		_, err := client.Create(ctx, "/ready", nil)
		created <- err
	}()
	check(c.WaitFor(ctx, func(c *cache.CuratorCache) bool { return c.Size() == 1 }))
	check(<-created)
	fmt.Println("ready")
	// Output:
	// ready
}
