// SPDX-License-Identifier: Apache-2.0

// Command java-and-go draws invoice numbers under a lock that it shares with a program in
// Java, Draw.java, which uses Apache Curator:
//
//	go run ./examples/devserver &
//	java -cp /usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-simple.jar examples/java-and-go/Draw.java 127.0.0.1:2181 20 &
//	go run ./examples/java-and-go -turns 20
//
// The class path is Debian's: apt-get install default-jdk-headless libcurator-recipes-java.
//
// Recipe and path must be the same on both sides, and nothing else is needed: the znodes of
// the lock are Curator's. Both wait in one queue, in the order of their arrival.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// Draw.java has the same paths.
const (
	lockPath   = "/examples/invoices/lock"
	numberPath = "/examples/invoices/number"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	turns := flag.Int("turns", 20, "how many numbers to draw")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Stdout, *connect, *turns)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "java-and-go:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, connect string, turns int) error {
	client, err := framework.Connect(ctx, connect)
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := locks.NewInterProcessMutex(client, lockPath)
	if err != nil {
		return err
	}
	for range turns {
		err := mutex.Do(ctx, func(ctx context.Context) error {
			number, err := next(ctx, client)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(w, "go draws %d\n", number)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// next reads the number and writes the next one, in two steps that only the lock makes one.
func next(ctx context.Context, client *framework.Framework) (int, error) {
	if stat, err := client.Exists(ctx, numberPath); err != nil {
		return 0, err
	} else if stat == nil {
		_, err := client.Create(ctx, numberPath, []byte("0"), framework.CreatingParentsIfNeeded())
		if err != nil {
			return 0, err
		}
	}
	data, err := client.Get(ctx, numberPath)
	if err != nil {
		return 0, err
	}
	number, err := strconv.Atoi(string(data))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", numberPath, err)
	}
	number++
	return number, client.Set(ctx, numberPath, []byte(strconv.Itoa(number)))
}
