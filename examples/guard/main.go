// SPDX-License-Identifier: Apache-2.0

// Command guard holds a lock until it is killed:
//
//	go run ./examples/devserver &
//	go build -o /tmp/ ./examples/guard && go build -C cmd/curatorctl -o /tmp/ .
//	/tmp/curatorctl guard -socket /tmp/own/guard &
//	export CURATOR_GUARD=/tmp/own/guard
//	/tmp/guard -label a & sleep 1; /tmp/guard -label b & sleep 1
//	kill -9 %3   # b holds the lock milliseconds later, with a greater token
//
// Without the guard, b waits for the session timeout of 20 s.
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
	label := flag.String("label", "", "the `name` of this contender")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, "127.0.0.1:2181", *label); err != nil {
		panic(err)
	}
}

func run(ctx context.Context, w io.Writer, connect, label string) error {
	client, err := framework.Connect(ctx, connect, framework.WithSessionTimeout(20*time.Second)) // and the guard in CURATOR_GUARD
	if err != nil {
		return err
	}
	defer client.Close()
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
