// SPDX-License-Identifier: Apache-2.0

// Command guard holds a lock until it is killed:
//
//	go run ./examples/devserver &
//	go build -o /tmp/ ./examples/guard && go build -C cmd/curatorctl -o /tmp/ .
//	/tmp/curatorctl guard -socket /tmp/own/guard -resume 2s &
//	export CURATOR_GUARD=/tmp/own/guard
//	/tmp/guard -id a & sleep 1; /tmp/guard -id b & sleep 1
//	kill -9 %3; /tmp/guard -id a &   # a holds the lock again, with the same token
//	sleep 6; kill -9 %5              # b holds the lock 2 s later, with a greater token
//
// Without the guard, b waits for the session timeout of 20 s. Without -resume it waits for milliseconds, and so does the
// second a. With -file in the place of -id the second a needs no guard.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	id := flag.String("id", "", "the `name` of the program at its guard")
	file := flag.String("file", "", "the `path` of a file for the session")
	flag.Parse()
	var opts []framework.Option
	switch {
	case *file != "":
		opts = append(opts, framework.WithSessionFile(*file))
	case *id != "":
		opts = append(opts, framework.WithID(*id))
	}
	if err := run(context.Background(), os.Stdout, "127.0.0.1:2181", *id+*file, opts...); err != nil {
		panic(err)
	}
}

func run(ctx context.Context, w io.Writer, connect, label string, opts ...framework.Option) error {
	opts = append(opts, framework.WithSessionTimeout(20*time.Second))
	client, err := framework.Connect(ctx, connect, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	// The label says whose place in the queue a restarted program takes.
	mutex, err := locks.NewInterProcessMutex(client, "/examples/guard", locks.WithLabel(label))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s waits\n", label)
	return mutex.Do(ctx, func(ctx context.Context) error {
		fmt.Fprintf(w, "%s holds the lock, with token %d\n", label, locks.LeaseFrom(ctx).Token())
		<-ctx.Done()
		return context.Cause(ctx)
	})
}
