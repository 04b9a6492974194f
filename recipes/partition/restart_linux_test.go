// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/partition"
	"github.com/gocurator/curator/testing/zktest"
)

// TestRestartedMemberKeepsItsPartitions: the membership of a program that is killed and started again in its session never ends, so no
// partition moves. It gets its own again when the locks of the process before are deleted.
func TestRestartedMemberKeepsItsPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, partition.Fixed(numbered(10)...))
		file := framework.WithSessionFile(filepath.Join(t.TempDir(), "session"))
		a := &worker{w: w, client: zktest.Client(t, w.server, file), ended: make(chan error, 1)}
		a.begin("a", nil)
		w.join("b")
		w.await(map[string]int{"a": 5, "b": 5})
		moves, starts := w.takenMoves(), w.starts()
		zktest.KillProcess(t, w.server, a.client)
		killed := time.Now()

		again := &worker{w: w, client: zktest.Client(t, w.server, file), ended: make(chan error, 1)}
		again.begin("a", nil)
		w.await(map[string]int{"a": 5, "b": 5})
		took := time.Since(killed)
		require.Greater(t, took, 4*time.Second, "doc.go says five seconds")
		require.Less(t, took, 10*time.Second)
		time.Sleep(time.Minute)
		w.await(map[string]int{"a": 5, "b": 5})
		require.Equal(t, starts+5, w.starts(), "b has kept its own: %s", w.told())
		require.Zero(t, w.takenMoves(), "%d before", moves)
		w.check()
	})
}
