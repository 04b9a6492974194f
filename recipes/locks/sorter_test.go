// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/framework"
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

// Wherever the counter stands, a queue of nodes sorts in the order of creation;
// and while the numbers are positive that is the order of Java's text comparison.
//
// See kazoo#606, kazoo#730 and go-zookeeper#65.
func TestSorterOrderIsThatOfCreation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		next := rapid.OneOf(rapid.Int32(), rapid.Int32Range(math.MaxInt32-50, math.MaxInt32)).Draw(t, "next")
		gaps := rapid.SliceOfN(rapid.Int32Range(1, 1000), 1, 50).Draw(t, "gaps")
		var created []string
		positive := true
		for i, gap := range gaps {
			created = append(created, fmt.Sprintf("_c_%032x-lock-%010d", len(gaps)-i, next))
			positive = positive && next >= 0
			next += gap // wraps
		}
		sorted := rapid.Permutation(created).Draw(t, "listed")
		slices.SortFunc(sorted, mutexSorter.Compare)
		require.Equal(t, created, sorted)
		if positive {
			slices.SortFunc(sorted, func(a, b string) int {
				return strings.Compare(a[strings.LastIndex(a, "lock-"):], b[strings.LastIndex(b, "lock-"):])
			})
			require.Equal(t, created, sorted)
		}
	})
}

func TestStandardDriverDecidesByThePlace(t *testing.T) {
	driver := locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}
	queue := []string{"a", "b", "c", "d"}
	for i, name := range queue {
		for leases := 1; leases <= len(queue); leases++ {
			got, err := driver.GetsTheLock(queue, name, leases)
			require.NoError(t, err)
			if i < leases {
				require.Equal(t, locks.PredicateResults{GetsTheLock: true}, got)
			} else {
				require.Equal(t, locks.PredicateResults{PathsToWatch: queue[i-leases : i]}, got)
			}
		}
	}
	_, err := driver.GetsTheLock(queue, "e", 1)
	require.ErrorIs(t, err, framework.ErrNoNode)
}
