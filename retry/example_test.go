// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/retry"
)

func ExampleDo() {
	calls := 0
	read := func(context.Context) (string, error) {
		if calls++; calls < 3 {
			return "", zk.ErrConnectionClosed
		}
		return "ready", nil
	}

	var value string
	err := retry.Do(context.Background(), retry.ExponentialBackoff(time.Millisecond, 5), func(ctx context.Context) error {
		var err error
		value, err = read(ctx)
		if errors.Is(err, zk.ErrNoNode) {
			return backoff.Permanent(err) // another try would say the same
		}
		return err
	})
	fmt.Println(value, err, calls)
	// Output: ready <nil> 3
}

func ExampleDo_deadline() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := retry.Do(ctx, retry.Forever(time.Minute), func(context.Context) error { return zk.ErrNoServer })
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, zk.ErrNoServer))
	// Output:
	// retry: stopped: context deadline exceeded; last error: zk: could not connect to a server
	// true true
}

// A policy that tells somebody about each retry wraps the one that decides.
func ExamplePolicyFunc() {
	decide := retry.NTimes(2, time.Millisecond)
	policy := retry.PolicyFunc(func(attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
		wait, ok := decide.Next(attempt, elapsed, err)
		fmt.Printf("retries %d, %v: wait %v, %v\n", attempt, err, wait, ok)
		return wait, ok
	})
	err := retry.Do(context.Background(), policy, func(context.Context) error { return zk.ErrConnectionClosed })
	fmt.Println(err)
	// Output:
	// retries 0, zk: connection closed: wait 1ms, true
	// retries 1, zk: connection closed: wait 1ms, true
	// retries 2, zk: connection closed: wait 0s, false
	// zk: connection closed
}

func ExampleFromBackOff() {
	policy := retry.FromBackOff(func() backoff.BackOff {
		return backoff.WithMaxRetries(backoff.NewConstantBackOff(2*time.Millisecond), 1)
	})
	fmt.Println(policy.Next(0, 0, zk.ErrConnectionClosed))
	fmt.Println(policy.Next(1, 0, zk.ErrConnectionClosed))
	// Output:
	// 2ms true
	// 0s false
}

func ExampleSessionFailed() {
	policy := retry.SessionFailed(retry.Forever(time.Second))
	fmt.Println(policy.Next(0, 0, zk.ErrConnectionClosed))
	fmt.Println(policy.Next(0, 0, zk.ErrSessionExpired))
	// Output:
	// 1s true
	// 0s false
}
