// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

const (
	opSet   = 5
	opMulti = 14
)

// sendMany queues n requests of a kilobyte each.
func sendMany(t *testing.T, c *conduit.Conduit, n int) {
	t.Helper()
	calls := make([]*conduit.Call, n)
	for i := range calls {
		calls[i] = &conduit.Call{Op: opSet, Body: make([]byte, 1<<10)}
	}
	require.NoError(t, c.Send(calls...))
}

// TestBulkPingsGoOutBeforeQueuedBulk: and so do the writes by which a hold is confirmed.
// The bulk waits, since the server does not answer.
func TestBulkPingsGoOutBeforeQueuedBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told, p := connected(t, n)
		p.silent.Store(true)
		sendMany(t, c, 900)
		synctest.Wait()
		written := len(p.frames)
		require.Less(t, written, 200, "the window is full")
		confirm := &conduit.Call{Op: 1, Confirms: true}
		require.NoError(t, c.Send(confirm))
		synctest.Wait()
		time.Sleep(sessionTimeout/3 + time.Second)
		require.Len(t, p.frames, written+2)
		for range written {
			require.EqualValues(t, opSet, (<-p.frames).op)
		}
		require.EqualValues(t, 1, (<-p.frames).op)
		require.EqualValues(t, opPing, (<-p.frames).op)
		require.Empty(t, told.told)
	})
}

// TestBulkLeaseThatEndsWhileRepliesComeKeepsTheConnection: the next lease opens with the
// reply to a request that was sent after the end.
func TestBulkLeaseThatEndsWhileRepliesComeKeepsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told, p := connected(t, n)
		p.silent.Store(true)
		for range 4 {
			require.NoError(t, c.Send(&conduit.Call{Op: opSet}))
		}
		var late []frame // by more than a lease, but replies come all the time
		for range 4 {
			late = append(late, <-p.frames)
		}
		for i := range 3 {
			time.Sleep(sessionTimeout * 3 / 10)
			p.reply(late[i].xid, 0, 0, nil)
		}
		deadline, _ := c.Deadline()
		time.Sleep(time.Until(deadline))
		_, over := c.Deadline()
		require.True(t, over)
		c.Lapse(errReset)
		p.reply(late[3].xid, 0, 0, nil)
		synctest.Wait()
		require.Empty(t, told.told, "the connection is kept")
		_, over = c.Deadline()
		require.True(t, over, "it was sent before the end")

		for {
			ping := <-p.frames
			require.EqualValues(t, opPing, ping.op)
			p.reply(ping.xid, 0, 0, nil)
			synctest.Wait()
			if len(told.told) > 0 {
				break
			}
		}
		require.Equal(t, "revived 51", <-told.told)
		_, over = c.Deadline()
		require.False(t, over)
		require.EqualValues(t, 1, n.dials.Load())
	})
}

// TestBulkLeaseThatEndsInSilenceCostsTheConnection: there is nothing to wait for.
func TestBulkLeaseThatEndsInSilenceCostsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, told, p := connected(t, newNetwork(t))
		p.silent.Store(true)
		time.Sleep(sessionTimeout / 2)
		c.Lapse(errReset)
		require.Equal(t, "disconnected", <-told.told)
	})
}

// TestBulkEventIsNotForgottenOverAReconnect: whoever was told by it must not read, from the
// next server, what was there before.
func TestBulkEventIsNotForgottenOverAReconnect(t *testing.T) {
	event := func(zxid int64) []byte {
		return reply(-1, zxid, 0, []byte{0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, '/', 'a'})
	}
	for name, test := range map[string]struct {
		zxid    int64
		replied bool // after the event
		named   uint64
		catchUp bool
	}{
		"which transaction it was is known": {zxid: 0x99, named: 0x99},
		"it is not known":                   {zxid: -1, catchUp: true},
		"a reply has named a later one":     {zxid: -1, replied: true, named: 0x88},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				c, told, p := connected(t, n)
				p.send(event(test.zxid))
				require.Contains(t, <-told.told, "notified")
				if test.replied {
					done := start(t.Context(), c, &conduit.Call{Op: 3})
					p.reply((<-p.frames).xid, 0x88, 0, nil)
					require.NoError(t, (<-done).err)
				}
				admitted := true
				for range 2 { // what is not settled on one connection is for the next
					require.NoError(t, p.Close())
					if admitted {
						require.Equal(t, "disconnected", <-told.told)
					}
					p = <-n.peers
					require.Equal(t, test.named, binary.BigEndian.Uint64(p.accept(0x51, sessionTimeout).raw[4:]))
					if admitted = !test.catchUp; admitted {
						require.Equal(t, "connected 51 fresh=false", <-told.told)
					} else {
						require.EqualValues(t, opMulti, (<-p.frames).op)
					}
					synctest.Wait()
					require.Empty(t, p.frames)
					require.Empty(t, told.told)
					p.reply(-1, -1, 0, nil) // broken: costs the connection
				}
				if admitted {
					require.Equal(t, "disconnected", <-told.told)
				}
				p = <-n.peers
				p.accept(0x51, sessionTimeout)
				if test.catchUp {
					first := <-p.frames
					require.EqualValues(t, opMulti, first.op)
					p.reply(first.xid, 0x77, -102, nil) // refused, and committed all the same
				}
				require.Equal(t, "connected 51 fresh=false", <-told.told)
				done := start(t.Context(), c, &conduit.Call{Op: 3})
				read := <-p.frames
				require.EqualValues(t, 3, read.op)
				p.reply(read.xid, 0x77, 0, nil)
				require.NoError(t, (<-done).err)
				require.NoError(t, p.Close())
				p = <-n.peers
				p.accept(0x51, sessionTimeout)
				synctest.Wait()
				require.Empty(t, p.frames, "it is settled")
			})
		})
	}
}

// TestBulkConnectingIsBoundedByWhatIsLeft of a session, as the server has granted it; and
// by the connection timeout alone while there is none.
func TestBulkConnectingIsBoundedByWhatIsLeft(t *testing.T) {
	for _, timeout := range []time.Duration{2 * time.Second, 6 * time.Second} {
		t.Run("a slow handshake "+timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				_, told := open(t, n, func(cfg *conduit.Config) { cfg.SessionTimeout = timeout })
				p := <-n.peers
				<-p.connect
				time.Sleep(1200 * time.Millisecond)
				p.send(handshake(int32(timeout.Milliseconds()), 0x51))
				require.Equal(t, "connected 51 fresh=true", <-told.told)
				require.EqualValues(t, 1, n.dials.Load())
			})
		})
	}
	t.Run("a slow revalidation", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const timeout = 6 * time.Second
			n := newNetwork(t)
			_, told := open(t, n, func(cfg *conduit.Config) { cfg.SessionTimeout = timeout })
			p := <-n.peers
			p.accept(0x51, timeout)
			require.Equal(t, "connected 51 fresh=true", <-told.told)
			require.NoError(t, p.Close())
			require.Equal(t, "disconnected", <-told.told)
			p = <-n.peers
			<-p.connect
			time.Sleep(1200 * time.Millisecond)
			p.send(handshake(int32(timeout.Milliseconds()), 0x51))
			require.Equal(t, "connected 51 fresh=false", <-told.told)
		})
	})
	t.Run("a short session and a paused server", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const asked, granted = 60 * time.Second, 3 * time.Second
			n := newNetwork(t)
			_, told := open(t, n, func(cfg *conduit.Config) {
				cfg.SessionTimeout = asked
				cfg.Servers = []string{"a:1", "b:1"}
			})
			p := <-n.peers
			healthy := p.address
			p.accept(0x51, granted)
			require.Equal(t, "connected 51 fresh=true", <-told.told)
			for range 6 {
				require.NoError(t, p.Close())
				require.Equal(t, "disconnected", <-told.told)
				if p = <-n.peers; p.address != healthy { // the paused one
					p = <-n.peers
				}
				require.Equal(t, healthy, p.address)
				p.accept(0x51, granted)
				require.Equal(t, "connected 51 fresh=false", <-told.told)
				time.Sleep(granted)
			}
		})
	})
}

// TestBulkManyCallsThatAreGivenUp behind a write that does not end cost no search each, and
// leave nothing in the queue.
func TestBulkManyCallsThatAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 20_000
		var o outcomes
		c, p, first := stuck(t, &o, func(*peer) { synctest.Wait() })
		ctx, cancel := context.WithCancelCause(t.Context())
		var given []<-chan outcome
		for range calls {
			given = append(given, start(ctx, c, &conduit.Call{Op: 4}))
		}
		kept := start(t.Context(), c, &conduit.Call{Op: 8})
		synctest.Wait()
		cancel(errGone)
		for _, done := range given {
			require.ErrorIs(t, (<-done).err, conduit.ErrNotSent)
		}
		go p.read() // takes the first frame for the connect request
		<-p.connect
		request := <-p.frames
		require.EqualValues(t, 8, request.op, "nothing else was left")
		require.NoError(t, p.Close())
		require.ErrorIs(t, (<-first).err, conduit.ErrUnanswered)
		require.ErrorIs(t, (<-kept).err, conduit.ErrUnanswered)
	})
}

// With many requests under way that take a while, a read waits a moment for more replies, and more rarely
// where one read brings one reply, as here. Otherwise a reply is read at once.
func TestBulkManyRepliesAreReadTogether(t *testing.T) {
	const replies = 39 // of them wait those after the eighth, and those after another sixteen
	for name, test := range map[string]struct {
		requests   int
		takes, gap time.Duration
	}{
		"many":  {100, 20 * time.Millisecond, time.Millisecond},
		"few":   {replies, 20 * time.Millisecond, 0},
		"quick": {100, 9 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, p := connected(t, newNetwork(t))
				begun := time.Now()
				var came, want []time.Duration
				calls := make([]*conduit.Call, test.requests)
				for i := range calls {
					calls[i] = &conduit.Call{Op: opSet, OnDone: func(_ conduit.Reply, err error) {
						if err == nil { // not at the end of the test
							came = append(came, time.Since(begun))
						}
					}}
				}
				require.NoError(t, c.Send(calls...))
				time.Sleep(test.takes)
				for i := range replies {
					p.reply((<-p.frames).xid, 0, 0, nil)
					at := test.takes
					for _, before := range []int{8, 24} {
						if i >= before {
							at += test.gap
						}
					}
					want = append(want, at)
				}
				synctest.Wait()
				require.Equal(t, want, came)
			})
		})
	}
}
