// SPDX-License-Identifier: Apache-2.0

// Command grpc is a gRPC service of several servers behind one name, and its
// client:
//
//	go run ./examples/devserver &        # in the root of the repository
//	cd examples/grpc
//	go run . -serve a &
//	go run . -serve b &
//	go run . -callers 8                  # until Ctrl-C, which prints what happened
//
// SIGTERM to a server stops it in order: it unregisters, drains and closes, and no
// call fails. After a kill -9 the calls that it was working on fail, and no
// others: gRPC leaves the server out at once, and ZooKeeper when its session has
// timed out.
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
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/discovery/grpcresolver"
)

const (
	service        = "health"
	sessionTimeout = 4 * time.Second // a killed server stays registered for this long
	work           = 5 * time.Millisecond
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	serveAs := flag.String("serve", "", "be a server with this `id`")
	callers := flag.Int("callers", 8, "how many call at once")
	flag.Parse()
	if err := run(*connect, *serveAs, *callers); err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

// run is a server, or the client without an id, until a signal comes.
func run(connect, id string, callers int) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if id != "" {
		return serve(ctx, connect, id)
	}
	return call(ctx, connect, callers)
}

// connected returns a client of ZooKeeper and the services there.
func connected(ctx context.Context, connect string) (*framework.Framework, *discovery.ServiceDiscovery[any], error) {
	client, err := framework.Connect(ctx, connect, framework.WithSessionTimeout(sessionTimeout))
	if err != nil {
		return nil, nil, err
	}
	services, err := discovery.NewServiceDiscovery[any](client, "/examples/grpc", nil)
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return client, services, nil
}

// serve is a server until ctx ends.
func serve(ctx context.Context, connect, id string) (err error) {
	client, services, err := connected(ctx, connect)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, services.Close(), client.Close()) }()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(working(id)))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()

	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("listener of %v, expected TCP", listener.Addr())
	}
	instance := discovery.NewInstance[any](service, address.IP.String(), address.Port)
	instance.ID = id
	if err := services.Register(ctx, instance); err != nil {
		server.Stop()
		return errors.Join(err, <-ended)
	}
	fmt.Println("serving", id)
	<-ctx.Done()
	err = services.Unregister(instance) // no client chooses it any more
	server.GracefulStop()               // the calls under way end
	return errors.Join(err, <-ended)
}

// working tells who serves a call, and takes its time.
func working(id string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		select {
		case <-time.After(work):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if err := grpc.SetHeader(ctx, metadata.Pairs("id", id)); err != nil {
			return nil, err
		}
		return handler(ctx, request)
	}
}

// call calls the service until ctx ends, and prints what has happened.
func call(ctx context.Context, connect string, callers int) (err error) {
	client, services, err := connected(ctx, connect)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	conn, err := dial(services)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	var l load
	l.run(ctx, conn, callers)
	fmt.Println(l.report())
	return nil
}

// dial connects to all servers of the service.
func dial(services *discovery.ServiceDiscovery[any]) (*grpc.ClientConn, error) {
	builder, err := grpcresolver.NewBuilder(services, grpcresolver.Config[any]{})
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("zookeeper:///"+service, grpc.WithResolvers(builder),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
}
