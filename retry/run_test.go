// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/retry"
)

var errHopeless = errors.New("test: hopeless")

// choosy is a policy with all that is optional.
type choosy struct {
	retry.Policy
	ended []error
}

func (c *choosy) AllowRetry(err error, retryable bool) bool {
	return retryable && !errors.Is(err, errHopeless)
}

func (c *choosy) Done(err error) { c.ended = append(c.ended, err) }

// TestWhatStandsInFrontOfAPolicyPassesAllOn: what it may refuse, and what it hears.
func TestWhatStandsInFrontOfAPolicyPassesAllOn(t *testing.T) {
	for name, wrap := range map[string]func(retry.Policy) retry.Policy{
		"nothing": func(p retry.Policy) retry.Policy { return p },
		"Wrap":    func(p retry.Policy) retry.Policy { return retry.Wrap(p, nil) },
		"session": retry.SessionFailed,
		"budget":  func(p retry.Policy) retry.Policy { return retry.NewBudget(p) },
		"all":     func(p retry.Policy) retry.Policy { return retry.NewBudget(retry.SessionFailed(retry.Wrap(p, nil))) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &choosy{Policy: retry.Forever(time.Second)}
				policy := wrap(c)
				tries := 0
				op := func(last error) func(context.Context) error {
					tries = 0
					return func(context.Context) error {
						if tries++; tries < 3 {
							return errTest
						}
						return last
					}
				}
				require.NoError(t, retry.Do(t.Context(), policy, op(nil)))
				require.Equal(t, 3, tries)
				require.Equal(t, errHopeless, retry.Do(t.Context(), policy, op(errHopeless)))
				require.Equal(t, 3, tries, "a refused retry is not made")
				require.Equal(t, []error{nil, errHopeless}, c.ended)
				require.Panics(t, func() { _ = retry.Do(t.Context(), policy, func(context.Context) error { panic("the caller's") }) })
				require.Len(t, c.ended, 3)
				require.ErrorContains(t, c.ended[2], "panicked")
			})
		})
	}
}

// TestWrapAsksTheFunction, which asks the policy as it likes.
func TestWrapAsksTheFunction(t *testing.T) {
	policy := retry.Wrap(retry.NTimes(2, time.Second), func(p retry.Policy, attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
		if errors.Is(err, errHopeless) {
			return 0, false
		}
		wait, ok := p.Next(attempt, elapsed, err)
		return 2 * wait, ok
	})
	wait, ok := policy.Next(1, 0, errTest)
	require.True(t, ok)
	require.Equal(t, 2*time.Second, wait)
	_, ok = policy.Next(2, 0, errTest)
	require.False(t, ok)
	_, ok = policy.Next(0, 0, errHopeless)
	require.False(t, ok)
	_, ok = retry.Wrap(nil, nil).Next(0, 0, errTest)
	require.False(t, ok)
}

// These are policies with methods that look like the optional ones, and would never be called.
type (
	portedSelector struct{ retry.Policy } // Java's allowRetry(Throwable)
	forgotten      struct{ retry.Policy }
	ownBeginning   struct{ retry.Policy }
)

func (portedSelector) AllowRetry(error) bool { return false }
func (*forgotten) Done()                     {}
func (ownBeginning) Begin() ownBeginning     { return ownBeginning{} }

// TestValidateRefusesMethodsThatWouldNotBeCalled, also inside the policies of this package, and names the form that is wanted.
func TestValidateRefusesMethodsThatWouldNotBeCalled(t *testing.T) {
	for policy, wanted := range map[retry.Policy]string{
		portedSelector{retry.None()}: "AllowRetry, func(retry_test.portedSelector, error) bool, would not be called: expected AllowRetry(err error, retryable bool) bool",
		&forgotten{retry.None()}:     "expected Done(err error)",
		ownBeginning{retry.None()}:   "expected Begin() retry.Policy",
	} {
		require.ErrorContains(t, retry.Validate(policy), wanted)
		require.ErrorContains(t, retry.Validate(retry.NewBudget(retry.SessionFailed(retry.Wrap(policy, nil)))), wanted)
	}
	var none *retry.Budget
	require.EqualError(t, retry.Validate(none), "retry: policy is a nil *retry.Budget")
	require.EqualError(t, retry.Validate(retry.Wrap((*choosy)(nil), nil)), "retry: policy is a nil *retry_test.choosy")
	for _, policy := range []retry.Policy{
		nil, retry.None(), &choosy{Policy: retry.None()}, retry.PolicyFunc(nil), retry.FromBackOff(func() backoff.BackOff { return &backoff.ZeroBackOff{} }),
		retry.SessionFailed(nil), retry.Wrap(nil, nil), retry.NewBudget(nil),
	} {
		require.NoError(t, retry.Validate(policy))
	}
}
