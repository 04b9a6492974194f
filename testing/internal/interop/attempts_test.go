// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zktest"
)

// What Go has put back, with the number of attempts and the error after the envelope, is an item like
// any other to Java, and so is a dead letter.
func TestJavaConsumesWhatHasFailed(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path, locks, dead = "/queues/failed", "/queues/failed-locks", "/queues/failed-dead"
		java := newActor(t, server)
		java.do(t, "put", "fifo", path, "poison", "fails once")
		queue, err := queues.NewDistributedQueue(zktest.Client(t, server), path,
			queues.WithLockPath(locks), queues.WithMaxAttempts(2, dead))
		require.NoError(t, err)
		for item, err := range queue.Items(zktest.Context(t)) {
			require.NoError(t, err)
			if string(item.Data) == "fails once" && item.Attempt() == 2 {
				break
			}
			item.Fail(errors.New("no luck"))
		}
		require.Equal(t, []string{"fails once"}, java.do(t, "consume", "fifo", path, locks, "1"))
		require.Equal(t, []string{"poison"}, java.do(t, "consume", "fifo", dead, "none", "1"))
	})
}
