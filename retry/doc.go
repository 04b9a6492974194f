// SPDX-License-Identifier: Apache-2.0

// Package retry decides whether to repeat an operation that may fail temporarily, and how long to wait before it: a ZooKeeper
// server restarts, a connection breaks, a leader is elected.
//
// # Choosing a policy
//
// A [Policy] is a pure function of how many retries were made, how much time has passed and what went wrong. It has no state, so
// one value serves any number of goroutines and lives as long as the program. The named policies are Apache Curator's, with
// Curator's meaning:
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
// No parameter makes these policies spin: every wait that they return lies between [MinWait] and [MaxWait], and a parameter
// outside of that range is moved to its nearer end. Where many clients fail together, as when a server restarts, prefer the exponential
// policies: their jitter keeps the clients from coming back all at once.
//
// Any backoff.BackOff of github.com/cenkalti/backoff/v4 becomes a policy through [FromBackOff], and any function through
// [PolicyFunc]:
//
//	retry.FromBackOff(func() backoff.BackOff { return backoff.NewExponentialBackOff() })
//
// # Running an operation
//
// [Do] runs a function until it succeeds, its policy gives up, its context ends, or it returns an error marked with
// backoff.Permanent:
//
//	err := retry.Do(ctx, policy, func(ctx context.Context) error {
//		err := fetch(ctx)
//		if errors.Is(err, zk.ErrNoNode) {
//			return backoff.Permanent(err) // another try would say the same
//		}
//		return err
//	})
//
// Only the operation knows what is worth another try, so Do retries after every error that is not marked. A write that is not
// idempotent must not be retried after an error that leaves its outcome open, such as a broken connection: check first whether it
// was applied.
//
// # Nesting
//
// A Do inside the operation of another Do multiplies: five tries of five tries are twenty-five, and the waits add up the same way.
// Retry at one level and give the inner level [None], or give both the same [Budget].
//
// # What is not promised
//
// A policy bounds the waits, not the tries: only its context ends an operation that hangs. [UntilElapsed] may start its last
// try up to one wait after its limit.
package retry
