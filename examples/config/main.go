// SPDX-License-Identifier: Apache-2.0

// Command config is a service that follows its configuration:
//
//	go run ./examples/devserver &
//	go run ./examples/config &
//	go run -C cmd/curatorctl . create -p /examples/config '{"greeting": "hi", "workers": 3}'
//
// It runs with defaults while there is none, and keeps the last good one when the new one is
// bad. After a lost connection it reads again.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gocurator/curator/framework"
)

// Config is what the service can be told.
type Config struct {
	Greeting string `json:"greeting"`
	Workers  int    `json:"workers"`
}

// defaults hold while there is no configuration.
var defaults = Config{Greeting: "hello", Workers: 1}

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
	err = follow(ctx, client, "/examples/config", func(c Config) { fmt.Printf("%s, %d workers\n", c.Greeting, c.Workers) })
	if ctx.Err() == nil { // it was no signal
		panic(err)
	}
}

// follow applies each good configuration. It skips those that pass while apply runs. It
// returns when ctx or the client ends, or the znode may not be read.
func follow(ctx context.Context, client *framework.Framework, path string, apply func(Config)) error {
	var last error
	for node, err := range client.Follow(ctx, path) {
		if last = err; err != nil {
			if ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "config may be out of date:", err)
			}
			continue
		}
		config := defaults
		if node.Exists() {
			if err := json.Unmarshal(node.Data, &config); err != nil {
				fmt.Fprintln(os.Stderr, "config stays what it was:", err)
				continue
			}
		}
		apply(config)
	}
	return last
}
