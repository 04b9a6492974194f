// Command mutex writes a report while it holds a lock. It is the first program
// of the README:
//
//	go run ./examples/devserver &
//	go run ./examples/mutex
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	flag.Parse()
	if err := report(context.Background(), *connect); err != nil {
		fmt.Fprintln(os.Stderr, "mutex:", err)
		os.Exit(1)
	}
}

func report(ctx context.Context, servers string) error {
	client, err := framework.Connect(ctx, servers)
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	if err != nil {
		return err
	}
	return mutex.Do(ctx, func(ctx context.Context) error {
		fmt.Println("writing the report, alone") // ctx ends if the lock is lost
		return ctx.Err()
	})
}
