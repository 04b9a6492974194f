// SPDX-License-Identifier: Apache-2.0

// Command dubbo registers a provider of a service as Dubbo does, and shows the service's providers:
//
//	go run ./examples/devserver &
//	go run ./examples/dubbo -port 20880 &
//	go run ./examples/dubbo -port 20881
//
// It shows providers of dubbo-go and of Dubbo in Java, too, and they find this one. The file
// registry.go is for copying; it makes no calls and needs nothing of Dubbo.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/gocurator/curator/framework"
)

const service = "com.example.Greeter"

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	port := flag.Int("port", 20880, "`port` of the provider")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *connect, *port); err != nil {
		fmt.Println(err)
	}
}

// run registers a provider and follows all until ctx ends.
func run(ctx context.Context, w io.Writer, connect string, port int) error {
	client, err := framework.Connect(ctx, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	services := Registry{Client: client}
	location := fmt.Sprintf("dubbo://127.0.0.1:%d/%s?application=example&interface=%s&methods=greet&side=provider", port, service, service)
	provider, err := services.Register(ctx, service, Providers, location)
	if err != nil {
		return err
	}
	defer provider.Close() // before the program stops serving
	for urls, err := range services.Follow(ctx, service, Providers) {
		if ctx.Err() != nil {
			return nil
		}
		fmt.Fprintln(w, len(urls), "providers:", urls, err)
	}
	return nil
}
