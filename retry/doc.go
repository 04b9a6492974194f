// SPDX-License-Identifier: Apache-2.0

// Package retry has policies that decide whether a failed operation is repeated, and after which pause.
//
// # In the first hour
//
// A new program needs nothing of this package. A client repeats its requests by itself, up to five times, with pauses
// that grow from 100 ms. Choose another policy when calls should give up sooner, or go on through a longer restart of
// the servers:
//
//	client, err := framework.Connect(ctx, servers,
//		framework.WithRetryPolicy(retry.ExponentialBackoff(100*time.Millisecond, 9)))
//
// A policy repeats calls. It does not bound how long a caller waits: a deadline in the context does.
//
// # Choosing a policy
//
// The named policies are Apache Curator's, with Curator's meaning:
//
//	retry.ExponentialBackoff(100*time.Millisecond, 5)                       // ExponentialBackoffRetry: the usual choice
//	retry.BoundedExponentialBackoff(100*time.Millisecond, 5*time.Second, 9) // BoundedExponentialBackoffRetry
//	retry.NTimes(3, time.Second)                                            // RetryNTimes
//	retry.OneTime(time.Second)                                              // RetryOneTime
//	retry.Forever(time.Second)                                              // RetryForever
//	retry.UntilElapsed(time.Minute, time.Second)                            // RetryUntilElapsed
//	retry.SessionFailed(policy)                                             // SessionFailedRetryPolicy
//	retry.None()                                                            // one try, no retry
//
// If many clients fail together, as when a server restarts, prefer the exponential policies. Their jitter keeps the
// clients from reconnecting all at once.
//
// No policy spins. Every wait lies between [MinWait] and [MaxWait]. A parameter outside this range is moved to its
// nearer end.
//
// A [Policy] is a function of the number of retries, the elapsed time and the error. It has no state, so one value
// serves all goroutines of a program.
//
// Any backoff.BackOff of github.com/cenkalti/backoff/v4 becomes a policy through [FromBackOff], and any function through
// [PolicyFunc]:
//
//	retry.FromBackOff(func() backoff.BackOff { return backoff.NewExponentialBackOff() })
//
// # Running an operation
//
// [Do] runs a function until it succeeds, its policy gives up, its context ends, or it returns an error marked with
// backoff.Permanent of backoff/v4 or backoff/v5:
//
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		err := fetch(ctx)
//		if errors.Is(err, zk.ErrNoNode) {
//			return backoff.Permanent(err) // another try would say the same
//		}
//		return err
//	})
//
// Do retries after every error that is not marked, because only the operation knows what is worth another try. Do not retry a
// write that is not idempotent after an error that leaves its outcome open, such as a broken connection. Check first whether the
// write was applied. The verbs of a client do that by themselves, and need no Do.
//
// # Nesting
//
// A Do inside the operation of another Do multiplies the tries: five tries of five tries are twenty-five. The waits
// multiply too. Retry at one level and give the inner level [None], or give both the same [Budget].
//
// # What is not promised
//
// A policy does not end an operation that hangs. Only the operation's context does. [UntilElapsed] may start its last
// try up to one wait after its limit.
package retry
