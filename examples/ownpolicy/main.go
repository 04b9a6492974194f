// SPDX-License-Identifier: Apache-2.0

// Command ownpolicy has a retry policy of its own, a circuit breaker. When three calls in a row
// have failed with all their retries, the next calls get one try each, until one succeeds:
//
//	go run ./examples/devserver &
//	go run ./examples/ownpolicy
//
// Stop the first program and start it again, and watch the calls of the second.
package main

import (
	"context"
	"errors"
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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, "127.0.0.1:2181", time.Second); err != nil {
		panic(err)
	}
}

// run makes a call in each interval until ctx ends, and says how it went.
func run(ctx context.Context, w io.Writer, connect string, interval time.Duration) error {
	policy := &breaker{closed: retry.ExponentialBackoff(200*time.Millisecond, 3), limit: 3}
	client, err := framework.Connect(ctx, connect, framework.WithRetryPolicy(policy), framework.WithConnectionTimeout(time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	for ctx.Err() == nil {
		began := time.Now()
		_, err := client.Children(ctx, "/")
		fmt.Fprintf(w, "open=%t after %v: %v\n", policy.isOpen(), time.Since(began), err)
		<-time.After(interval)
	}
	return nil
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
