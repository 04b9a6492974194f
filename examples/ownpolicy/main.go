// SPDX-License-Identifier: Apache-2.0

// Command ownpolicy has a retry policy of its own, a circuit breaker. When several calls in a
// row have failed with all their retries, the next calls get one try each, until one of them
// succeeds:
//
//	go run ./examples/devserver &
//	go run ./examples/ownpolicy
//
// Stop the first program, and the calls of the second fail: three of them after some seconds
// of retries, and the next ones quickly. Start the first again, and the breaker closes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Stdout, *connect, time.Second)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ownpolicy:", err)
		os.Exit(1)
	}
}

// run makes a call in each interval until ctx ends, and says how it went.
func run(ctx context.Context, w io.Writer, connect string, interval time.Duration) error {
	policy := &breaker{closed: retry.ExponentialBackoff(200*time.Millisecond, 3), limit: 3}
	client, err := framework.Connect(ctx, connect,
		framework.WithRetryPolicy(policy), framework.WithConnectionTimeout(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	for tick := time.NewTicker(interval); ; {
		began := time.Now()
		_, err := client.Children(ctx, "/")
		fmt.Fprintf(w, "open=%t after %v: %v\n", policy.isOpen(), time.Since(began), err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// breaker is a retry.Policy and a retry.Observer. One value serves all goroutines.
type breaker struct {
	closed retry.Policy // decides while the breaker is closed
	limit  int64        // how many calls in a row fail before it opens

	failed atomic.Int64 // calls in a row that got no answer
}

func (b *breaker) isOpen() bool { return b.failed.Load() >= b.limit }

// Next decides after a failed try whether there is another one.
func (b *breaker) Next(attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
	if b.isOpen() {
		return 0, false
	}
	return b.closed.Next(attempt, elapsed, err)
}

// Done hears how each call ended, with nil for success.
func (b *breaker) Done(err error) {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// The caller has given up, which says nothing about the servers.
	case framework.Retryable(err):
		b.failed.Add(1)
	default:
		b.failed.Store(0) // success, or an answer such as framework.ErrNoNode
	}
}
