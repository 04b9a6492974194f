// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
)

// place is one node of a queue of readers and writers as the model sees it.
type place struct {
	name     string
	isWriter bool
}

// drawQueue draws a queue in the order of creation, wherever the counter stands. A
// writer at its head may have been downgraded.
func drawQueue(t *rapid.T) []place {
	next := rapid.OneOf(rapid.Int32(), rapid.Int32Range(1<<31-20, 1<<31-1)).Draw(t, "next")
	var queue []place
	for i, isWriter := range rapid.SliceOfN(rapid.Bool(), 1, 12).Draw(t, "writers") {
		if next == 1<<31-1 {
			next++ // has an answer of its own
		}
		kind := "__READ__"
		if isWriter {
			kind = "__WRIT__"
		}
		id := rapid.Uint32().Draw(t, "id")
		queue = append(queue, place{fmt.Sprintf("_c_%08x-%d-%s%010d", id, i, kind, next), isWriter})
		if i == 0 && isWriter && rapid.Bool().Draw(t, "downgraded") {
			queue = append(queue, place{fmt.Sprintf("_c_%08x-d-__READ__%010d", id, next), false})
		}
		next += rapid.Int32Range(1, 3).Draw(t, "gap") // wraps
	}
	return queue
}

// Whatever the queue: it sorts in the order of creation, the first is let in,
// never a writer together with anybody else (but the reader it was downgraded to),
// and everybody who waits does so for one before, a reader for the nearest writer.
//
// See CURATOR-211, CURATOR-307 and kazoo#649.
func TestReadWriteLockQueue(t *testing.T) {
	drivers := locks.ReadWriteDrivers()
	rapid.Check(t, func(t *rapid.T) {
		queue := drawQueue(t)
		var want, foreign []string
		for _, p := range queue {
			want = append(want, p.name)
		}
		foreign = rapid.SliceOfN(rapid.SampledFrom([]string{
			"_c_a", "__READ__", "__WRIT__7", "lock-0000000000", "x__READ__-1", "README",
		}), 0, 3).Draw(t, "foreign")
		listed := rapid.Permutation(append(slices.Clone(want), foreign...)).Draw(t, "listed")
		contenders := slices.DeleteFunc(listed, func(name string) bool { return !drivers[0].Contends(name) })
		slices.SortFunc(contenders, drivers[0].Compare)
		require.Equal(t, want, contenders)

		for i, p := range queue {
			got := must.Get(drivers[btoi(p.isWriter)].GetsTheLock(contenders, p.name, 1))(t)
			require.Equal(t, decide(queue, i), got, "%s in %s", p.name, strings.Join(want, " "))
		}
	})
}

// decide is the rule, said once more.
func decide(queue []place, i int) locks.PredicateResults {
	downgraded := len(queue) > 1 && queue[0].isWriter && strings.Contains(queue[1].name, "-d-")
	switch {
	case i == 0, i == 1 && downgraded:
		return locks.PredicateResults{GetsTheLock: true}
	case queue[i].isWriter:
		return locks.PredicateResults{PathsToWatch: []string{queue[i-1].name}}
	}
	for j := i - 1; j >= 0; j-- {
		if queue[j].isWriter {
			return locks.PredicateResults{PathsToWatch: []string{queue[j].name}}
		}
	}
	return locks.PredicateResults{GetsTheLock: true}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestDowngradedWriterWaitsForNoOther: the one that let it in may still be listed.
func TestDowngradedWriterWaitsForNoOther(t *testing.T) {
	const released, writer, reader = "_c_a-__WRIT__0000000001", "_c_b-__WRIT__0000000002", "_c_c-__READ__0000000002"
	driver := locks.DowngradeDriver("/lock/" + writer)
	require.True(t, must.Get(driver.GetsTheLock([]string{released, writer, reader}, reader, 1))(t).GetsTheLock)
}

// TestDowngradedReaderMustBeListed: the writer's node proves nothing about the reader's.
func TestDowngradedReaderMustBeListed(t *testing.T) {
	const writer, reader = "_c_b-__WRIT__0000000002", "_c_c-__READ__0000000002"
	_, err := locks.DowngradeDriver("/lock/"+writer).GetsTheLock([]string{writer}, reader, 1)
	require.ErrorIs(t, err, framework.ErrNoNode)
}
