// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/locks"
)

var mutexSorter = locks.StandardLockInternalsSorter{LockName: "lock-"}

// See CURATOR-43 and go-zookeeper#44.
func TestSequence(t *testing.T) {
	for _, test := range []struct {
		name string
		want int32
		ok   bool
	}{
		{"lock-0000000000", 0, true},
		{"_c_2b0e3ae1-25b3-4b6c-8f41-0d0b6a2b3c4d-lock-0000000042", 42, true},
		{"lock-2147483647", math.MaxInt32, true},
		{"lock--2147483648", math.MinInt32, true},
		{"lock--2147483647", math.MinInt32 + 1, true},
		{"lock-lock-0000000007", 7, true},
		{"lock-2147483648", 0, false},
		{"lock-000000001", 0, false},
		{"lock-00000000001", 0, false},
		{"lock--0000000001", 0, false},
		{"lock-+000000001", 0, false},
		{"lock- 000000001", 0, false},
		{"lock-", 0, false},
		{"lease-0000000001", 0, false},
		{"0000000001", 0, false},
		{"", 0, false},
	} {
		got, ok := mutexSorter.Sequence(test.name)
		require.Equal(t, test.ok, ok, test.name)
		require.Equal(t, test.ok, mutexSorter.Contends(test.name), test.name)
		if test.ok {
			require.Equal(t, test.want, got, test.name)
		}
	}
}
