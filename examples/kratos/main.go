// SPDX-License-Identifier: Apache-2.0

// Command kratos calls an HTTP service of github.com/go-kratos/kratos by its name:
//
//	go run ./examples/devserver &     # in the root of the repository
//	cd examples/kratos
//	go run . -serve &
//	go run . -serve &
//	go run .                          # shows which of them answers
//
// The file registry.go is for copying. Unlike the registry of Kratos' contrib folder, it registers
// a service again in each session, replaces what a killed process has left, and gives no list that
// an outage has emptied. Services of both find each other.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-kratos/kratos/v2"
	"github.com/go-kratos/kratos/v2/transport/http"

	"github.com/gocurator/curator/framework"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	serve := flag.Bool("serve", false, "be an instance of the service instead of calling it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	// A killed instance stays registered until its session times out.
	client, err := framework.Connect(ctx, *connect, framework.WithSessionTimeout(10*time.Second))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	services, err := New(client, DefaultRoot)
	switch {
	case err != nil:
	case *serve:
		err = greeter(services).Run() // Kratos ends it at SIGTERM
	default:
		err = call(ctx, services)
	}
	if err != nil {
		fmt.Println(err)
	}
}

// greeter returns an instance of the service.
func greeter(services *Registry) *kratos.App {
	server := http.NewServer(http.Address("127.0.0.1:0"))
	app := kratos.New(kratos.Name("greeter"), kratos.Server(server), kratos.Registrar(services))
	server.Route("/").GET("/hello", func(c http.Context) error {
		return c.Result(200, map[string]string{"from": app.ID()})
	})
	return app
}

// call calls the service once a second until ctx ends.
func call(ctx context.Context, services *Registry) error {
	conn, err := http.NewClient(ctx, http.WithEndpoint("discovery:///greeter"), http.WithDiscovery(services), http.WithBlock())
	if err != nil {
		return err
	}
	defer conn.Close()
	for ctx.Err() == nil {
		var reply map[string]string
		err := conn.Invoke(ctx, "GET", "/hello", nil, &reply)
		fmt.Println(reply["from"], err)
		<-time.After(time.Second)
	}
	return nil
}
