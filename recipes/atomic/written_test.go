// SPDX-License-Identifier: Apache-2.0

package atomic_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// inMemory runs test on fake time, with a counter that was set to 0 by another client.
func inMemory(t *testing.T, test func(t *testing.T, server *zkserver.Server, long, other *atomic.DistributedAtomicLong)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		long, other := newLong(t, zktest.Client(t, server)), newLong(t, zktest.Client(t, server))
		must.Get(other.Initialize(zktest.Context(t), 0))(t)
		test(t, server, long, other)
	})
}

// served returns how many requests of the kind the server has been sent.
func served(server *zkserver.Server, op zkserver.OpCode) (n int) {
	for _, e := range server.Log() {
		if e.Kind == zkserver.Served && e.Request.Op == op {
			n++
		}
	}
	return n
}

func TestWrittenChangesInARowNeedNoRead(t *testing.T) {
	inMemory(t, func(t *testing.T, server *zkserver.Server, long, _ *atomic.DistributedAtomicLong) {
		for i := range int64(20) {
			value := must.Get(long.Increment(zktest.Context(t)))(t)
			require.Equal(t, i, value.Pre)
			require.Equal(t, i+1, value.Post)
			require.Equal(t, 1, value.Stats.OptimisticTries)
		}
		require.Equal(t, 20, served(server, zkserver.OpSetData))
		require.Equal(t, 3, served(server, zkserver.OpGetData), "the 1st, the 9th and the 17th, so that others get a turn")
	})
}

func TestWrittenChangeAfterAPauseReads(t *testing.T) {
	inMemory(t, func(t *testing.T, server *zkserver.Server, long, _ *atomic.DistributedAtomicLong) {
		const roundTrip = 10 * time.Millisecond
		remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpSetData {
				return zkserver.Delay(roundTrip)
			}
			return zkserver.Pass
		})
		defer remove()
		for _, c := range []struct {
			pause time.Duration
			reads int
		}{{0, 1}, {roundTrip, 0}, {roundTrip + 1, 1}} {
			time.Sleep(c.pause)
			before := served(server, zkserver.OpGetData)
			must.Get(long.Increment(zktest.Context(t)))(t)
			require.Equal(t, c.reads, served(server, zkserver.OpGetData)-before, "after %v", c.pause)
		}
	})
}

func TestWrittenChangeThatFollowsIsOvertaken(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *zkserver.Server, long, other *atomic.DistributedAtomicLong) {
		must.Get(long.Increment(zktest.Context(t)))(t)
		must.Get(other.Add(zktest.Context(t), 10))(t)

		value, err := long.Increment(zktest.Context(t))

		require.NoError(t, err)
		require.Equal(t, int64(11), value.Pre)
		require.Equal(t, int64(12), value.Post)
		require.Equal(t, int64(12), must.Get(other.Get(zktest.Context(t)))(t))
	})
}

// What this client has written last is not what the znode has now. It cannot decide that there is
// nothing to write.
func TestWrittenWhatWasWrittenRefusesNoChange(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *zkserver.Server, long, other *atomic.DistributedAtomicLong) {
		must.Get(long.Increment(zktest.Context(t)))(t)
		require.NoError(t, other.ForceSet(zktest.Context(t), 5))
		require.True(t, must.Get(long.CompareAndSet(zktest.Context(t), 5, 6))(t))
	})
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		value, other := newValue(t, zktest.Client(t, server)), newValue(t, zktest.Client(t, server))
		require.NoError(t, other.ForceSet(zktest.Context(t), []byte("a")))
		must.Get(value.TrySet(zktest.Context(t), []byte("b")))(t)
		require.NoError(t, other.ForceSet(zktest.Context(t), []byte("c")))
		must.Get(value.Update(zktest.Context(t), func(pre []byte) ([]byte, error) {
			if string(pre) != "c" {
				return nil, errors.New("not ready")
			}
			return []byte("d"), nil
		}))(t)
	})
}

// A caller may use the bytes of an outcome as it likes.
func TestWrittenNextChangeDoesNotBeginWithBytesOfTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		value := newValue(t, zktest.Client(t, server))
		must.Get(value.Initialize(zktest.Context(t), nil))(t)
		first := must.Get(value.TrySet(zktest.Context(t), []byte("a")))(t)
		first.Post[0] = 'x'

		second, err := value.Update(zktest.Context(t), func(pre []byte) ([]byte, error) { return append(pre, 'b'), nil })

		require.NoError(t, err)
		require.Equal(t, "a", string(second.Pre))
		require.Equal(t, 1, served(server, zkserver.OpGetData), "the second change follows the first")
	})
}

func TestWrittenChangeThatFollowsIsNeverCountedTwice(t *testing.T) {
	inMemory(t, func(t *testing.T, server *zkserver.Server, long, other *atomic.DistributedAtomicLong) {
		must.Get(long.Increment(zktest.Context(t)))(t)
		server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.LoseReply))

		_, err := long.Increment(zktest.Context(t))

		require.True(t, framework.OutcomeUnknown(err), "%v", err)
		require.Equal(t, int64(2), must.Get(other.Get(zktest.Context(t)))(t))
	})
}
