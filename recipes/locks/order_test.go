// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"errors"
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

// A list is what the server may say is in a lock's folder: contenders of several
// makes, their numbers less than 2^31 apart wherever the counter stands, and names
// that have no business there.

// drawNumbers draws up to ten different numbers, each as many after the first as a
// queue may be long. The counter may be about to wrap.
func drawNumbers(t *rapid.T) []int32 {
	first := rapid.OneOf(rapid.Int32(), rapid.Int32Range(math.MaxInt32-9, math.MaxInt32),
		rapid.SampledFrom([]int32{0, -1, math.MinInt32})).Draw(t, "first")
	after := rapid.OneOf(rapid.Int32Range(0, 20), rapid.Int32Range(0, math.MaxInt32))
	distances := rapid.SliceOfNDistinct(after, 1, 10, rapid.ID[int32]).Draw(t, "distances")
	numbers := make([]int32, len(distances))
	for i, d := range distances {
		numbers[i] = first + d // wraps
	}
	return numbers
}

// drawName draws the name of a contender: one of ours, which are also Java's, one of
// Curator's first versions, which knew no protection, or one whose protection is odd.
func drawName(t *rapid.T, lockName string, number int32) string {
	id := rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`).Draw(t, "id")
	before := rapid.SampledFrom([]string{"_c_" + id + "-", "", "_c_" + id, lockName, "x-" + lockName + "0000000001-"}).Draw(t, "before")
	return fmt.Sprintf("%s%s%010d", before, lockName, number)
}

// drawForeign draws names that are nobody's who contends: kazoo's, those of other
// recipes, and some that look like a contender's.
func drawForeign(t *rapid.T, lockName string) []string {
	return rapid.SliceOfN(rapid.OneOf(
		rapid.SampledFrom([]string{
			"", "_c_", "_c_a", lockName, lockName + "1", lockName + "00000000001", lockName + "2147483648", lockName + "+000000001",
			lockName + "0000000001x", "latch-0000000000", "README", "locks", "leases",
		}),
		rapid.StringMatching(`[0-9a-f]{32}__(lock|rlock)__[0-9]{10}`), // kazoo
		rapid.StringMatching(`[0-9]{10}`),
	), 0, 4).Draw(t, "foreign")
}

// drawContenders draws a list, and returns the contenders as the driver sorts them.
func drawContenders(t *rapid.T, driver locks.LockInternalsDriver, names []string, lockName string) []string {
	listed := rapid.Permutation(append(slices.Clone(names), drawForeign(t, lockName)...)).Draw(t, "listed")
	contenders := slices.DeleteFunc(listed, func(name string) bool { return !driver.Contends(name) })
	require.ElementsMatch(t, names, contenders, "all of them contend, and nobody else")
	slices.SortFunc(contenders, driver.Compare)
	return contenders
}

// The order is a total one: two names are equal only to themselves, one comes before
// the other or the other way round, and what comes before what comes before a third
// comes before that. While the numbers are positive it is Java's, which compares as
// text what follows the lock name.
func TestOrderIsTotalAndJavas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var names []string
		positive := true
		numbers := drawNumbers(t)
		for _, n := range append(numbers, rapid.SampledFrom(numbers).Draw(t, "twice")) {
			names = append(names, drawName(t, mutexSorter.LockName, n))
			positive = positive && n >= 0
		}
		for _, a := range names {
			for _, b := range names {
				order := mutexSorter.Compare(a, b)
				require.Equal(t, -order, mutexSorter.Compare(b, a), "%s, %s", a, b)
				require.Equal(t, a == b, order == 0, "%s, %s", a, b)
				if text := strings.Compare(javaSorts(a), javaSorts(b)); positive && text != 0 {
					require.Equal(t, text, order, "%s, %s", a, b)
				}
				for _, c := range names {
					if order < 0 && mutexSorter.Compare(b, c) < 0 {
						require.Negative(t, mutexSorter.Compare(a, c), "%s, %s, %s", a, b, c)
					}
				}
			}
		}
	})
}

// javaSorts is what Curator's StandardLockInternalsDriver compares.
func javaSorts(name string) string {
	return name[strings.LastIndex(name, "lock-")+len("lock-"):]
}

// admitted returns which of the contenders the driver lets in when all of them look
// at the same list. Who is not let in waits for somebody, but for those with the
// last number, who are told that there is no order any more.
func admitted(t *rapid.T, driver func(name string) locks.LockInternalsDriver, contenders []string, maxLeases int) (in []string) {
	for _, name := range contenders {
		got, err := driver(name).GetsTheLock(slices.Clone(contenders), name, maxLeases)
		if errors.Is(err, locks.ErrSequenceExhausted) {
			require.True(t, strings.HasSuffix(name, fmt.Sprint(math.MaxInt32)), name)
			continue
		}
		require.NoError(t, err)
		require.NotContains(t, got.PathsToWatch, name, "nobody waits for himself")
		require.Subset(t, contenders, got.PathsToWatch)
		if got.GetsTheLock {
			in = append(in, name)
		}
	}
	return in
}

// always is the same driver for every name.
func always(driver locks.LockInternalsDriver) func(string) locks.LockInternalsDriver {
	return func(string) locks.LockInternalsDriver { return driver }
}

// Whatever is listed, a mutex lets in one, and a semaphore as many as it has leases,
// but never anybody whose number several have.
func TestOrderNoMoreAreLetInThanThereAreLeases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		driver := locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}
		var names []string
		queued := 0 // with a number of their own
		for _, n := range drawNumbers(t) {
			names = append(names, drawName(t, mutexSorter.LockName, n))
			if n != math.MaxInt32 {
				queued++
				continue
			}
			names = append(names, drawName(t, mutexSorter.LockName, n)) // the server repeats the last one
		}
		slices.Sort(names)
		names = slices.Compact(names)
		contenders := drawContenders(t, driver, names, mutexSorter.LockName)
		maxLeases := rapid.IntRange(1, 4).Draw(t, "leases")
		in := admitted(t, always(driver), contenders, maxLeases)
		require.LessOrEqual(t, len(in), maxLeases)
		if queued == len(names) {
			require.Equal(t, contenders[:min(maxLeases, queued)], in, "the first ones")
		}

		_, err := driver.GetsTheLock(contenders, "_c_-lock-0000000000", maxLeases)
		require.ErrorIs(t, err, framework.ErrNoNode, "who is not listed is not let in")
	})
}

// The second semaphore counts: with too many leases nobody gets one more.
func TestOrderSecondSemaphoreCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		driver := locks.SemaphoreV2Driver()
		var names []string
		for _, n := range drawNumbers(t) {
			names = append(names, drawName(t, "lease-", n))
		}
		contenders := drawContenders(t, driver, names, "lease-")
		maxLeases := rapid.IntRange(0, 12).Draw(t, "leases")
		in := admitted(t, always(driver), contenders, maxLeases)
		require.LessOrEqual(t, len(in), maxLeases)
		if len(names) <= maxLeases {
			require.Equal(t, contenders, in)
		}
	})
}

// A read/write lock lets in one writer, with the reader that it becomes, or readers.
func TestOrderWriterIsAloneInAnyList(t *testing.T) {
	drivers := locks.ReadWriteDrivers()
	rapid.Check(t, func(t *rapid.T) {
		var names []string
		writes := make(map[string]bool)
		for _, n := range drawNumbers(t) {
			kind := rapid.SampledFrom([]string{"__READ__", "__WRIT__", "downgraded"}).Draw(t, "kind")
			if kind != "__READ__" {
				names = append(names, drawName(t, "__WRIT__", n))
				writes[names[len(names)-1]] = true
			}
			if kind != "__WRIT__" {
				names = append(names, drawName(t, "__READ__", n))
			}
		}
		contenders := drawContenders(t, drivers[0], names, "__READ__")
		in := admitted(t, func(name string) locks.LockInternalsDriver { return drivers[btoi(writes[name])] }, contenders, 1)
		writer := slices.IndexFunc(in, func(name string) bool { return writes[name] })
		if writer < 0 {
			return
		}
		for _, name := range in {
			require.Equal(t, in[writer][len(in[writer])-10:], name[len(name)-10:], "%s is let in with %s", name, in[writer])
		}
		writers := slices.DeleteFunc(slices.Clone(in), func(name string) bool { return !writes[name] })
		require.Len(t, writers, 1)
		require.Equal(t, in[0], in[writer], "it is the first")
	})
}
