// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/x/partition"
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

func ExampleMember_Run() {
	client, closeAll := exampleClient()
	defer closeAll()
	member, err := partition.New(client, "/orders/partitions", partition.Fixed("eu", "us"))
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	var begun sync.WaitGroup
	begun.Add(2)
	go func() {
		begun.Wait()
		cancel() // at the end of the program
	}()
	err = member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
		fmt.Println("working on", p.Name)
		begun.Done()
		<-ctx.Done() // the partition must go
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Unordered output:
	// working on eu
	// working on us
	// true
}

// orders is the program of MIGRATING.md.
func orders(ctx context.Context, client *framework.Framework, work func(ctx context.Context, name string, token int64) error) error {
	member, err := partition.New(client, "/orders/partitions", partition.Fixed("0", "1", "2", "3"))
	if err != nil {
		return err
	}
	return member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
		return work(ctx, p.Name, p.Lease.Token())
	})
}

func Example_fromKazoo() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx, cancel := context.WithCancel(context.Background())
	var begun sync.WaitGroup
	begun.Add(4)
	go func() {
		begun.Wait()
		cancel()
	}()
	err := orders(ctx, client, func(ctx context.Context, name string, _ int64) error {
		fmt.Println("work on", name)
		begun.Done()
		<-ctx.Done()
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	// Unordered output:
	// work on 0
	// work on 1
	// work on 2
	// work on 3
	// true
}

// The leaders of many tenants are spread over the replicas: each tenant is a partition.
func ExampleNew_leaderships() {
	client, closeAll := exampleClient()
	defer closeAll()
	ctx, cancel := context.WithCancel(context.Background())
	tenants := partition.Fixed("ada", "bob", "cyd", "dan")
	var replicas sync.WaitGroup
	for _, id := range []string{"replica-1", "replica-2"} {
		replica, err := partition.New(client, "/tenants/leaders", tenants, partition.WithID(id), partition.WithSettle(10*time.Millisecond))
		check(err)
		replicas.Go(func() {
			err := replica.Run(ctx, func(ctx context.Context, _ partition.Partition) error {
				<-ctx.Done() // leads the tenant; the token of the lease is the term
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				panic(err)
			}
		})
	}
	for {
		time.Sleep(10 * time.Millisecond)
		a, err := partition.Read(ctx, client, "/tenants/leaders")
		if errors.Is(err, framework.ErrNoNode) {
			continue // no replica has joined yet
		}
		check(err)
		if len(a.Members) == 2 && a.Members[0].Held == 2 && a.Members[1].Held == 2 {
			fmt.Println("each replica leads", a.Members[0].Held, "tenants")
			break
		}
	}
	cancel()
	replicas.Wait()
	// Output: each replica leads 2 tenants
}
