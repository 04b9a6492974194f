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

func TestNestedLoopsShareABudget(t *testing.T) {
	for name, policy := range map[string]retry.Policy{
		"pure":    retry.NTimes(4, time.Second),
		"backoff": retry.FromBackOff(func() backoff.BackOff { return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 4) }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				broken := errors.New("broken")
				budget := retry.NewBudget(policy)
				began, tries := time.Now(), 0
				err := retry.Do(t.Context(), budget, func(ctx context.Context) error {
					return retry.Do(ctx, budget, func(ctx context.Context) error {
						return retry.Do(ctx, budget, func(context.Context) error {
							tries++
							return broken
						})
					})
				})
				require.Equal(t, broken, err)
				require.Equal(t, 5, tries, "and not 125")
				require.Equal(t, 4*time.Second, time.Since(began))
			})
		})
	}
}

// A policy that has given up for one error would allow a retry after another one.
func TestABudgetThatIsSpentStaysSpent(t *testing.T) {
	fatal := errors.New("fatal")
	budget := retry.NewBudget(retry.PolicyFunc(func(_ int, _ time.Duration, err error) (time.Duration, bool) { return 0, err != fatal })) //nolint:errorlint // as it was given
	for i, err := range []error{errors.New("one"), fatal, errors.New("two")} {
		_, ok := budget.Next(0, 0, err)
		require.Equal(t, i == 0, ok, err)
	}
}

func TestABudgetCountsTheTimeOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := retry.NewBudget(retry.UntilElapsed(10*time.Second, time.Second))
		time.Sleep(9 * time.Second)
		_, ok := budget.Next(7, time.Hour, errors.New("one"))
		require.True(t, ok)
		time.Sleep(2 * time.Second)
		_, ok = budget.Next(0, 0, errors.New("two"))
		require.False(t, ok)
		_, ok = retry.NewBudget(nil).Next(0, 0, errors.New("three"))
		require.False(t, ok)
	})
}
