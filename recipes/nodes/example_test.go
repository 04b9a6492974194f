// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/nodes"
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

func ExamplePersistentNode() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	node, err := nodes.NewPersistentNode(client, "/workers/a", framework.Ephemeral, []byte("idle"))
	check(err)
	back := make(chan struct{})
	check(node.Start())
	check(node.WaitForInitialCreate(ctx))
	node.OnChange(func(c nodes.Change) {
		fmt.Println("present:", c.Present, "error:", c.Err)
		if c.Present {
			close(back)
		}
	})

	check(client.Delete(ctx, "/workers/a")) // by mistake
	<-back
	check(node.SetData(ctx, []byte("busy")))
	data, err := client.Get(ctx, "/workers/a")
	check(err)
	fmt.Printf("%s\n", data)
	check(node.Close())
	// Output:
	// present: false error: the znode was deleted
	// present: true error: <nil>
	// busy
}

func ExamplePersistentTtlNode() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	node, err := nodes.NewPersistentTtlNode(client, "/jobs/nightly", time.Hour, []byte("running"))
	check(err)
	check(node.Start())
	check(node.WaitForInitialCreate(ctx))
	check(node.Close()) // stops touching; the server deletes the znode when its time has passed
	data, err := client.Get(ctx, "/jobs/nightly")
	check(err)
	fmt.Printf("still %s\n", data)
	// Output:
	// still running
}

func ExampleGroupMember() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx := context.Background()
	join := func(id string) *nodes.GroupMember {
		member, err := nodes.NewGroupMember(client, "/workers", id, []byte("10.0.0.1"))
		check(err)
		check(member.Start())
		check(member.WaitUntilJoined(ctx))
		return member
	}
	a := join("a")
	fmt.Println("a sees", len(a.Members()))
	b := join("b")
	fmt.Println("b sees", len(b.Members()))
	check(b.Close())
	check(a.WaitFor(ctx, func(members map[string][]byte) bool { return len(members) == 1 }))
	fmt.Println("a is alone again")
	check(a.Close())
	// Output:
	// a sees 1
	// b sees 2
	// a is alone again
}
