// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

func TestSequenceNumbers(t *testing.T) {
	for _, n := range []int32{0, 1, 999_999_999, 1_000_000_000, math.MaxInt32, math.MinInt32, -1_000_000_000, -999_999_999, -1} {
		name := fmt.Sprintf("job-%010d", n) // as a server formats it
		for _, path := range []string{
			name, "/" + name, "/a/b/" + name, "/a/_c_01234567-89ab-cdef-0123-456789abcdef-" + name,
		} {
			got, ok := framework.SequenceNumber(path, "job-")
			require.True(t, ok, path)
			require.Equal(t, n, got, path)
		}
		got, ok := framework.SequenceNumber(fmt.Sprintf("/a/%010d", n), "")
		require.True(t, ok)
		require.Equal(t, n, got)
	}
	for _, name := range []string{
		"", "job-", "job-1", "job-000000001", "job-00000000001", "job-+000000001", "job-2147483648", "job-00000000x1",
		"job-0000000001-", "other-0000000001", "job--00000000001", "job- 000000001", "job-0x00000001", "job-000_000_01",
	} {
		_, ok := framework.SequenceNumber(name, "job-")
		require.False(t, ok, name)
	}
}

func TestSequenceNumbersInOrder(t *testing.T) {
	t.Parallel()
	order := []int32{5, math.MaxInt32 - 1, math.MaxInt32, math.MinInt32, math.MinInt32 + 1}
	for i, a := range order {
		require.Zero(t, framework.CompareSequence(a, a))
		for _, b := range order[i+1:] {
			require.Negative(t, framework.CompareSequence(a, b), "%d before %d", a, b)
			require.Positive(t, framework.CompareSequence(b, a), "%d after %d", b, a)
		}
	}
	onEachBackend(t, func(t *testing.T, _ zktest.Backend, f *framework.Framework) {
		var numbers []int32
		for i := range 6 {
			opts := []framework.CreateOption{framework.WithMode(framework.EphemeralSequential)}
			if i%2 == 0 {
				opts = append(opts, framework.WithProtection())
			}
			n, ok := framework.SequenceNumber(mustCreate(t, f, "/start/job-", opts...), "job-")
			require.True(t, ok)
			numbers = append(numbers, n)
		}
		require.True(t, slices.IsSortedFunc(numbers, framework.CompareSequence), "%v", numbers)
		require.Len(t, slices.Compact(numbers), 6)
	})
}
