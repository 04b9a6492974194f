package partition_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/partition"
)

// TestMembersShareAndLeave: partitions are divided, a join and a leave move one share, and
// nothing is left in the end.
func TestMembersShareAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, partition.Fixed(numbered(12)...))
		began := time.Now()
		a := w.join("a")
		w.await(map[string]int{"a": 12})
		require.Less(t, time.Since(began), 100*time.Millisecond, "the first member waits for nothing")
		time.Sleep(2 * time.Second)
		joined := time.Now()
		b := w.join("b")
		w.await(map[string]int{"a": 6, "b": 6})
		require.GreaterOrEqual(t, time.Since(joined), time.Second, "the group settles first")
		require.Equal(t, 6, w.takenMoves())
		c := w.join("c")
		w.await(map[string]int{"a": 4, "b": 4, "c": 4})
		require.Equal(t, 4, w.takenMoves())
		left := time.Now()
		b.leave()
		w.await(map[string]int{"a": 6, "c": 6})
		require.Less(t, time.Since(left), 100*time.Millisecond, "an orderly leave takes a few round trips")
		require.Equal(t, 4, w.takenMoves())
		a.leave()
		w.await(map[string]int{"c": 12})
		c.leave()
		synctest.Wait()
		w.requireNothingLeft()
	})
}
