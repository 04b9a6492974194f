// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// answer is the frame that a server sends in place of its own reply.
func answer(xid int32, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(body)))
	b = binary.BigEndian.AppendUint32(b, uint32(xid))
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, 0)
	return append(b, body...)
}

// names is the reply to a list of children.
func names(children ...string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(children)))
	for _, name := range children {
		b = binary.BigEndian.AppendUint32(b, uint32(len(name)))
		b = append(b, name...)
	}
	return append(b, make([]byte, 68)...) // the Stat
}

// TestLockAtABadServer: whatever a server, or another client with the right to create
// nodes in the lock's folder, makes a client believe, it does not take a lock that it
// does not have. The acquisition ends with an error of its kind, in bounded time and
// memory; its node goes; the lock is free for the next one.
func TestLockAtABadServer(t *testing.T) {
	const path = "/locks/bad"
	replied := func(op zkserver.OpCode, says func(xid int32) []byte) func(zkserver.Request) zkserver.Fault {
		return func(r zkserver.Request) zkserver.Fault {
			if r.Op == op {
				return zkserver.RespondWith(says(r.Xid))
			}
			return zkserver.Pass
		}
	}
	for i, test := range []struct {
		does  string
		fault func(zkserver.Request) zkserver.Fault
		want  error
	}{
		{"a list of 0x7fffffff names", replied(zkserver.OpGetChildren2, func(xid int32) []byte {
			return answer(xid, 0x7f, 0xff, 0xff, 0xff)
		}), framework.ErrMalformedReply},
		{"a list of 0xffffffff names", replied(zkserver.OpGetChildren2, func(xid int32) []byte {
			return answer(xid, 0xff, 0xff, 0xff, 0xff)
		}), framework.ErrMalformedReply},
		{"a list without our node", replied(zkserver.OpGetChildren2, func(xid int32) []byte {
			return answer(xid, names()...)
		}), framework.ErrNoNode},
		{"a list of names that are not of the lock", replied(zkserver.OpGetChildren2, func(xid int32) []byte {
			return answer(xid, names("README", "_c_a", "lock-", "")...)
		}), framework.ErrNoNode},
		{"a frame of 0xffffffff bytes", replied(zkserver.OpGetChildren2, func(int32) []byte {
			return []byte{0xff, 0xff, 0xff, 0xff}
		}), framework.ErrConnectionLost},
		{"a frame of 0x40000000 bytes", replied(zkserver.OpGetChildren2, func(int32) []byte {
			return []byte{0x40, 0, 0, 0}
		}), framework.ErrTooLarge},
		{"a frame too short for a header", replied(zkserver.OpGetChildren2, func(int32) []byte {
			return []byte{0, 0, 0, 2, 1, 1}
		}), framework.ErrConnectionLost},
		{"the reply to another request", replied(zkserver.OpGetChildren2, func(xid int32) []byte {
			return answer(xid-1, names()...)
		}), framework.ErrConnectionLost},
		{"a creation without a path", replied(zkserver.OpCreate2, func(xid int32) []byte {
			return answer(xid)
		}), framework.ErrMalformedReply},
		{"a creation of a node elsewhere", replied(zkserver.OpCreate2, func(xid int32) []byte {
			return answer(xid, append([]byte{0, 0, 0, 2, '/', 'x'}, make([]byte, 68)...)...)
		}), framework.ErrMalformedReply},
		{"a creation that is refused", func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpCreate2 {
				return zkserver.FailWith(-102)
			}
			return zkserver.Pass
		}, framework.ErrNoAuth},
	} {
		t.Run(fmt.Sprintf("%d %s", i+1, test.does), func(t *testing.T) {
			within64MiB(t, func(t *testing.T) {
				server := zktest.NewServer(t)
				release(t, acquire(t, newMutex(t, zktest.Client(t, server.Addr()), path))) // makes the folder
				client := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(retry.OneTime(time.Millisecond)))
				before := zktest.Embedded(server).Counts(t)
				remove := server.Intercept(test.fault)
				lease, err := newMutex(t, client, path).Acquire(zktest.Context(t))
				require.Error(t, err)
				require.Nil(t, lease)
				require.ErrorIs(t, err, test.want)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				remove()
				zktest.Embedded(server).AwaitCounts(t, before, limit)

				lease = acquire(t, newMutex(t, client, path))
				release(t, lease)
				began := time.Now()
				require.NoError(t, client.Close())
				require.Less(t, time.Since(began), limit)
			})
		})
	}
}

// within64MiB runs a test that may take no more memory than that, and must leave no
// goroutine.
func within64MiB(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	running := goleak.IgnoreCurrent()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	t.Run("bounds", test)
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
	goleak.VerifyNone(t, running)
}
