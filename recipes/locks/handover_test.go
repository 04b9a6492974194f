// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// linked is a client that is connected through a proxy of its own.
type linked struct {
	*framework.Framework
	link *zkproxy.Proxy
}

func newLinked(t *testing.T, server zktest.Backend) linked {
	t.Helper()
	client, link := zktest.ClientViaProxy(t, server)
	return linked{client, link}
}

// requests returns a channel that gets the operation of each request from now on.
func (l linked) requests() <-chan int32 {
	sent := make(chan int32, 1000)
	l.link.Intercept(func(frame zkproxy.Frame) zkproxy.Verdict {
		if frame.Direction == zkproxy.ToServer {
			sent <- frame.Op
		}
		return zkproxy.Pass
	})
	return sent
}

const opGetChildren2 = 12

// awaitRequest waits for a request of this operation. That the acquisition ends
// before is an error.
func awaitRequest(t *testing.T, requests <-chan int32, op int32, not <-chan outcome) {
	t.Helper()
	for {
		select {
		case sent := <-requests:
			if sent == op {
				return
			}
		case o := <-not:
			t.Fatalf("the acquisition has ended with %+v", o)
		case <-zktest.Context(t).Done():
			t.Fatalf("request %d has not come", op)
		}
	}
}

func requireWaiting(t *testing.T, result <-chan outcome) {
	t.Helper()
	select {
	case o := <-result:
		t.Fatalf("the acquisition has ended with %+v while another holds the lock", o)
	default:
	}
}

const handoverPath = "/locks/handover"

// TestDowngradedWriterKeepsWritersOut has a writer wait behind one of its own client, which
// becomes a reader, and behind one of another client.
func TestDowngradedWriterKeepsWritersOut(t *testing.T) {
	t.Parallel()
	for _, inProcess := range []bool{false, true} {
		t.Run(fmt.Sprintf("in one process %t", inProcess), func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client := newLinked(t, server)
				first := client.Framework
				if !inProcess {
					first = zktest.Client(t, server.ConnectString())
				}
				rw := newReadWrite(t, first, handoverPath)
				writer := acquire(t, rw.WriteLock())
				result := acquireLater(zktest.Context(t), newReadWrite(t, client.Framework, handoverPath).WriteLock())
				awaitQueue(t, rw, 2)
				require.NoError(t, client.Sync(zktest.Context(t), "/"))
				reader := must.Get(rw.ReadLock().Acquire(writer.Context(zktest.Context(t))))(t)
				sent := client.requests()
				release(t, writer)
				awaitRequest(t, sent, opGetChildren2, result)
				require.NoError(t, client.Sync(zktest.Context(t), "/"))
				requireWaiting(t, result)
				release(t, reader)
				o := await(t, result)
				require.NoError(t, o.err)
				release(t, o.lease)
			})
		})
	}
}

// TestQueueOrderAcrossProcesses has goroutines of several clients queue up, and some give up.
// The lock goes round in the order of the nodes.
func TestQueueOrderAcrossProcesses(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		before := server.Counts(t)
		var in occupancy
		var wg sync.WaitGroup
		for range 3 {
			mutex := newMutex(t, zktest.Client(t, server.ConnectString()), handoverPath)
			for range 6 {
				wg.Go(func() {
					for i := range 20 {
						contend(t, mutex, i%5 == 4, &in)
					}
				})
			}
		}
		wg.Wait()
		require.Empty(t, in.overlaps)
		before.Sessions += 3
		server.AwaitCounts(t, before, limit)
	})
}
