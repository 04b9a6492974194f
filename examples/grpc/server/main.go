// SPDX-License-Identifier: Apache-2.0

// Command server is one of several servers of a gRPC service; see the command grpc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *connect); err != nil {
		panic(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, connect string) error {
	// A killed server stays registered until its session times out.
	client, err := framework.Connect(ctx, connect, framework.WithSessionTimeout(4*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	services, err := discovery.NewServiceDiscovery[any](client, "/examples/grpc", nil)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()

	port := listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // as it listens on TCP
	instance := discovery.NewInstance[any]("health", "127.0.0.1", port)
	if err := services.Register(ctx, instance); err != nil {
		server.Stop()
		return errors.Join(err, <-ended)
	}
	fmt.Println("serving at", listener.Addr())
	<-ctx.Done()
	err = services.Unregister(instance) // no client chooses it any more
	server.GracefulStop()               // the calls under way end
	return errors.Join(err, <-ended)
}
