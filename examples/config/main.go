// SPDX-License-Identifier: Apache-2.0

// Command config is a service that follows its configuration:
//
//	go run ./examples/devserver &
//	go run ./examples/config
//
// It runs with defaults while there is none, keeps the last good one when the new one is bad,
// and goes on by itself after lost connections. Changes that follow one another quickly are
// applied once.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

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
	path := flag.String("path", "/examples/config", "`path` of the configuration")
	settle := flag.Duration("settle", 50*time.Millisecond, "`time` without a change after which the newest is applied")
	flag.Parse()
	if err := run(*connect, *path, *settle); err != nil {
		fmt.Fprintln(os.Stderr, "config:", err)
		os.Exit(1)
	}
}

func run(connect, path string, settle time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	client, err := framework.Connect(ctx, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	err = follow(ctx, client, path, settle, func(c Config) { fmt.Printf("%s, %d workers\n", c.Greeting, c.Workers) })
	if errors.Is(err, context.Canceled) {
		return nil // stopped by a signal
	}
	return err
}

// follow applies each configuration, and returns when there will be no other: the context or
// the client has ended, or the znode may not be read.
func follow(ctx context.Context, client *framework.Framework, path string, settle time.Duration, apply func(Config)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	newest := make(chan Config)
	ended := make(chan error, 1)
	go func() { ended <- read(ctx, client, path, newest) }()
	var pending Config
	var settled <-chan time.Time
	for {
		select {
		case pending = <-newest:
			settled = time.After(settle)
		case <-settled:
			apply(pending)
			settled = nil
		case err := <-ended:
			return err
		}
	}
}

// read sends on every configuration that is good.
func read(ctx context.Context, client *framework.Framework, path string, newest chan<- Config) error {
	var last error
	for node, err := range client.Follow(ctx, path) {
		if last = err; err != nil {
			fmt.Fprintln(os.Stderr, "config may be out of date:", err)
			continue
		}
		config := defaults
		if node.Exists() {
			if err := json.Unmarshal(node.Data, &config); err != nil {
				fmt.Fprintln(os.Stderr, "config stays what it was:", err)
				continue
			}
		}
		select {
		case newest <- config:
		case <-ctx.Done():
		}
	}
	return last
}
