// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
)

// connect starts an embedded server, in place of the ensemble that a program would
// use, and returns a client of it and what closes both.
func connect() (client *framework.Framework, end func()) {
	server, err := zkserver.Start()
	if err != nil {
		panic(err)
	}
	client, err = framework.Connect(context.Background(), server.Addr())
	if err != nil {
		panic(err)
	}
	return client, func() {
		if err := errors.Join(client.Close(), server.Close()); err != nil {
			panic(err)
		}
	}
}

func Example() {
	server, err := zkserver.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }() // it is in memory

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := framework.Connect(ctx, server.Addr()+"/orders", // a chroot, as in Java
		framework.WithSessionTimeout(10*time.Second),
		framework.WithRetryPolicy(retry.ExponentialBackoff(100*time.Millisecond, 5)),
		framework.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }() // without confirmation the session times out

	path, err := client.Create(ctx, "/2026/first", []byte("ten apples"), framework.CreatingParentsIfNeeded())
	fmt.Println(path, err)
	var stat framework.Stat
	data, err := client.Get(ctx, path, framework.StoringStatIn(&stat))
	fmt.Printf("%s, version %d, %v\n", data, stat.Version, err)
	// Output:
	// /2026/first <nil>
	// ten apples, version 0, <nil>
}

func ExampleFramework_Create() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	// With protection the node is created once, even if the reply is lost.
	path, err := client.Create(ctx, "/queue/item-", nil,
		framework.CreatingParentContainersIfNeeded(),
		framework.WithMode(framework.EphemeralSequential),
		framework.WithProtection())
	fmt.Println(framework.IsProtectedName(path), err)

	_, err = client.Create(ctx, "/queue", nil)
	fmt.Println(errors.Is(err, framework.ErrNodeExists), framework.Retryable(err), framework.OutcomeUnknown(err))
	// Output:
	// true <nil>
	// true false false
}

func ExampleFramework_Set() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	if _, err := client.Create(ctx, "/counter", []byte("41")); err != nil {
		fmt.Println(err)
		return
	}

	// Compare and set: only the version that was read is replaced.
	var stat framework.Stat
	if _, err := client.Get(ctx, "/counter", framework.StoringStatIn(&stat)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Set(ctx, "/counter", []byte("42"), framework.WithVersion(stat.Version)))
	err := client.Set(ctx, "/counter", []byte("43"), framework.WithVersion(stat.Version))
	fmt.Println(errors.Is(err, framework.ErrBadVersion))
	// Output:
	// <nil>
	// true
}

func ExampleFramework_Transact() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	results, err := client.Transact(ctx,
		framework.CreateOp("/accounts", nil),
		framework.CreateOp("/accounts/ann", []byte("100")),
		framework.SetDataOp("/accounts/ann", []byte("90"), framework.WithVersion(0)))
	fmt.Println(results[1].Path, results[2].Stat.Version, err)

	_, err = client.Transact(ctx,
		framework.SetDataOp("/accounts/ann", []byte("0")),
		framework.CheckOp("/accounts/bob", framework.AnyVersion))
	fmt.Println(err)
	data, err := client.Get(ctx, "/accounts/ann")
	fmt.Printf("%s %v\n", data, err)
	// Output:
	// /accounts/ann 1 <nil>
	// framework: transact /accounts/bob: check, operation 1: zk: node does not exist
	// 90 <nil>
}

func ExampleFramework_Pipeline() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	if _, err := client.Create(ctx, "/a/b", nil, framework.CreatingParentsIfNeeded()); err != nil {
		fmt.Println(err)
		return
	}

	var data []byte
	var names []string
	err := client.Pipeline(ctx, framework.ReadData("/a/b", &data), framework.ReadChildren("/a", &names))
	fmt.Println(len(data), names, err)
	// Output: 0 [b] <nil>
}

func ExampleWatched() {
	client, end := connect()
	defer end()
	ctx := context.Background()
	if _, err := client.Create(ctx, "/config", []byte("old")); err != nil {
		fmt.Println(err)
		return
	}

	var watch *framework.Watch
	data, err := client.Get(ctx, "/config", framework.Watched(&watch))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", data)

	if err := client.Set(ctx, "/config", []byte("new")); err != nil {
		fmt.Println(err)
		return
	}
	event, err := watch.Wait(ctx)
	fmt.Println(event.Type == framework.EventNodeDataChanged, event.Path, event.Err, err)
	// Output:
	// old
	// true /config <nil> <nil>
}

func ExampleFramework_OnConnectionState() {
	server, err := zkserver.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }() // it is in memory
	client, err := framework.New(server.Addr())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }() // without confirmation the session times out

	states := make(chan framework.ConnectionState, 10)
	registration := client.OnConnectionState(func(s framework.ConnectionState) { states <- s })
	defer registration.Remove()
	if err := client.Start(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-states)

	// A restart within the session.
	if err := errors.Join(server.Stop(), server.Restart()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(<-states)
	fmt.Println(<-states)
	// Output:
	// CONNECTED
	// SUSPENDED
	// RECONNECTED
}

func ExampleSession_Context() {
	client, end := connect()
	session := client.Session()

	// What is done on this context stops when the session can no longer be relied on.
	held := session.Context(framework.StandardErrorPolicy)
	fmt.Println(held.Err())
	end()
	var lost *framework.LostError
	if errors.As(context.Cause(held), &lost) {
		fmt.Println(lost.Reason)
	}
	// Output:
	// <nil>
	// closed
}

// A persistent watch that feeds a local copy: read once the listener is there, and
// again whenever changes may have gone unseen.
func ExampleFramework_AddWatch() {
	client, end := connect()
	defer end()
	ctx := context.Background()

	watch, err := client.AddWatch(ctx, "/config", framework.WatchPersistentRecursive)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer watch.Cancel()
	seen := make(chan framework.Event, 10)
	watch.OnEvent(func(e framework.Event) { seen <- e })

	if _, err := client.Create(ctx, "/config", nil); err != nil {
		fmt.Println(err)
	}
	if _, err := client.Create(ctx, "/config/port", []byte("8080")); err != nil {
		fmt.Println(err)
	}
	for range 2 {
		e := <-seen
		fmt.Println(e.Type, e.Path)
	}
	// Output:
	// EventNodeCreated /config
	// EventNodeCreated /config/port
}

// The client proves who it is before anything else, and makes a znode that only the same user may touch.
func ExampleWithSASL() {
	server, err := zkserver.Start(zkserver.WithSASLUsers(map[string]string{"alice": "wonderland"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }() // it is in memory

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client, err := framework.Connect(ctx, server.Addr(),
		framework.WithSASL(framework.DigestMD5("alice", "wonderland")),
		framework.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close() }() // without confirmation the session times out

	path, err := client.Create(ctx, "/mine", nil,
		framework.WithACL(framework.ACL{Perms: framework.PermAll, Scheme: "sasl", ID: "alice"}))
	fmt.Println(path, err)
	identities, err := client.WhoAmI(ctx)
	fmt.Println(slices.Contains(identities, framework.Identity{Scheme: "sasl", ID: "alice"}), err)
	// Output:
	// /mine <nil>
	// true <nil>
}
