// SPDX-License-Identifier: Apache-2.0

// Command grpc calls a gRPC service of several servers behind one name:
//
//	go run ./examples/devserver &        # in the root of the repository
//	cd examples/grpc
//	go run ./server &
//	go run ./server &
//	go run .                             # shows which server answers
//
// After SIGTERM a server unregisters, drains and ends, and no call fails. After a kill -9 only
// the calls fail that it was working on: gRPC leaves it out at once, and ZooKeeper when its
// session has timed out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/discovery/grpcresolver"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	client, err := framework.Connect(ctx, *connect)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	conn, err := dial(client)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	for ctx.Err() == nil {
		var server peer.Peer
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, nil, grpc.Peer(&server), grpc.WaitForReady(true))
		fmt.Println(server.Addr, err)
		<-time.After(time.Second)
	}
}

// dial connects to all servers of the service, and follows their changes.
func dial(client *framework.Framework) (*grpc.ClientConn, error) {
	services, err := discovery.NewServiceDiscovery[any](client, "/examples/grpc", nil)
	if err != nil {
		return nil, err
	}
	resolver, err := grpcresolver.NewBuilder(services, grpcresolver.Config[any]{})
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("zookeeper:///health", grpc.WithResolvers(resolver),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}
