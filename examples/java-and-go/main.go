// SPDX-License-Identifier: Apache-2.0

// Command java-and-go draws invoice numbers under a lock that it shares with a program in
// Java, Draw.java, which uses Apache Curator:
//
//	go run ./examples/devserver &
//	java -cp /usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-simple.jar examples/java-and-go/Draw.java 127.0.0.1:2181 20 &
//	go run ./examples/java-and-go
//
// The class path is of Debian's packages default-jdk-headless and libcurator-recipes-java.
// Recipe and path must be the same on both sides. Both programs wait in one queue.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

const ( // as in Draw.java
	lockPath   = "/examples/invoices/lock"
	numberPath = "/examples/invoices/number"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *connect, 20); err != nil {
		panic(err)
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
			if err == nil {
				_, err = fmt.Fprintf(w, "go draws %d\n", number)
			}
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
	data, err := client.Get(ctx, numberPath)
	if errors.Is(err, framework.ErrNoNode) {
		_, err := client.Create(ctx, numberPath, []byte("1"))
		return 1, err
	}
	if err != nil {
		return 0, err
	}
	number, err := strconv.Atoi(string(data))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", numberPath, err)
	}
	return number + 1, client.Set(ctx, numberPath, []byte(strconv.Itoa(number+1)))
}
