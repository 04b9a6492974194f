// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cenkalti/backoff/v5"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zktest"
)

// TestBackoffFiveMarksErrors: the library requires backoff/v4, and programs may have v5, whose mark is another type.
func TestBackoffFiveMarksErrors(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	reason := errors.New("another try would say the same")
	for name, marked := range map[string]error{
		"bare":    backoff.Permanent(reason),
		"wrapped": fmt.Errorf("get /a: %w", backoff.Permanent(reason)),
		"joined":  errors.Join(errors.New("another"), backoff.Permanent(reason)),
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			op := func(context.Context) error {
				if calls++; calls > 1 {
					return nil
				}
				return marked
			}
			require.Equal(t, reason, retry.Do(t.Context(), retry.Forever(0), op))
			require.Equal(t, 1, calls)
			calls = 0
			require.Equal(t, reason, client.Retry(t.Context(), op))
			require.Equal(t, 1, calls)
		})
	}
	marked, _ := retry.Permanent(backoff.RetryAfter(1))
	require.False(t, marked)
}
