// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/testing/zkserver"
)

// Start a server and connect any client to it.
func Example() {
	srv, err := zkserver.Start()
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	conn, _, err := zk.Connect([]string{srv.Addr()}, 5*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		panic(err)
	}
	defer conn.Close()

	path, err := conn.Create("/report-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	fmt.Println(path, err)
	fmt.Println(srv.Stats().Ephemerals, "ephemeral node")
	// Output:
	// /report-0000000000 <nil>
	// 1 ephemeral node
}

// Lose the reply to the first create: the client cannot tell whether it was applied.
func ExampleServer_Intercept() {
	srv, err := zkserver.Start()
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	conn, _, err := zk.Connect([]string{srv.Addr()}, 5*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		panic(err)
	}
	defer conn.Close()

	remove := srv.Intercept(zkserver.Nth(1, zkserver.OpCreate, zkserver.LoseReply))
	defer remove()
	for range 2 {
		_, err = conn.Create("/report", nil, 0, zk.WorldACL(zk.PermAll))
		for errors.Is(err, zk.ErrNoServer) { // not sent, as there was no connection
			_, err = conn.Create("/report", nil, 0, zk.WorldACL(zk.PermAll))
		}
		fmt.Println("lost:", errors.Is(err, zk.ErrConnectionClosed), "exists:", errors.Is(err, zk.ErrNodeExists))
	}
	// Output:
	// lost: true exists: false
	// lost: false exists: true
}

// Wait for something to happen instead of sleeping.
func ExampleServer_Await() {
	srv, err := zkserver.Start()
	if err != nil {
		panic(err)
	}
	defer srv.Close()
	conn, _, err := zk.Connect([]string{srv.Addr()}, 5*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		panic(err)
	}
	defer conn.Close()

	go func() { _, _, _ = conn.Get("/config") }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := srv.Await(ctx, func(e zkserver.Event) bool {
		return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData
	})
	fmt.Println(e.Request.Path, e.Err, err)
	// Output: /config -101 <nil>
}
