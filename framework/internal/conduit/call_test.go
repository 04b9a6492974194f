// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/testkit/must"
)

func TestCallRepliesOutOfOrderCutTheConnection(t *testing.T) {
	for name, answer := range map[string]func(p *peer, first, second frame){
		"swapped":                 func(p *peer, _, second frame) { p.reply(second.xid, 0, 0, nil) },
		"unknown":                 func(p *peer, _, _ frame) { p.reply(-5, 0, 0, nil) },
		"twice":                   func(p *peer, first, _ frame) { p.reply(first.xid, 0, 0, nil); p.reply(first.xid, 0, 0, nil) },
		"shorter than its header": func(p *peer, _, _ frame) { p.send(append([]byte{0, 0, 0, 12}, make([]byte, 12)...)) },
		"a broken notification":   func(p *peer, _, _ frame) { p.reply(-1, -1, 0, []byte{0}) },
		"longer than allowed":     func(p *peer, first, _ frame) { p.send(reply(first.xid, 0, 0, make([]byte, 1<<16))[:4]) },
		"of negative length":      func(p *peer, _, _ frame) { p.send([]byte{0xff, 0xff, 0xff, 0xff}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, told, p := connected(t, newNetwork(t))
				a, b := &conduit.Call{Op: 3}, &conduit.Call{Op: 3}
				done := make(chan error, 1)
				go func() { done <- c.Do(t.Context(), a, b) }()
				first, second := <-p.frames, <-p.frames
				answer(p, first, second)
				err := <-done
				require.ErrorIs(t, err, conduit.ErrUnanswered)
				require.ErrorIs(t, err, conduit.ErrProtocol)
				<-p.ended
				require.Equal(t, "disconnected", <-told.told)
			})
		})
	}
}

// outcomes counts the calls of OnDone.
type outcomes struct {
	count atomic.Int32
	last  atomic.Value
}

func (o *outcomes) onDone(_ conduit.Reply, err error) {
	o.count.Add(1)
	o.last.Store(fmt.Sprint(err))
}

var errGone = errors.New("the caller has gone")

// TestCallWhatHasBeenSent checks that a call without a reply says truly whether it
// has reached the wire, and that OnDone is called once in every case.
func TestCallWhatHasBeenSent(t *testing.T) {
	t.Run("context ended before the call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _, p := connected(t, newNetwork(t))
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errGone)
			var o outcomes
			call := &conduit.Call{Op: 3, OnDone: o.onDone}
			err := c.Do(ctx, call)
			require.ErrorIs(t, err, conduit.ErrNotSent)
			require.ErrorIs(t, err, conduit.ErrAbandoned)
			synctest.Wait()
			require.Empty(t, p.frames)
			require.EqualValues(t, 1, o.count.Load())
		})
	})
	t.Run("context ended after the write", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _, p := connected(t, newNetwork(t))
			ctx, cancel := context.WithCancelCause(t.Context())
			var o outcomes
			done := start(ctx, c, &conduit.Call{Op: 3, OnDone: o.onDone})
			request := <-p.frames
			cancel(errGone)
			got := <-done
			require.ErrorIs(t, got.err, conduit.ErrUnanswered)
			require.ErrorIs(t, got.err, conduit.ErrAbandoned)
			require.Zero(t, o.count.Load(), "the reply is still to come")
			p.reply(request.xid, 0, 0, nil)
			synctest.Wait()
			require.EqualValues(t, 1, o.count.Load())
			require.Equal(t, "<nil>", o.last.Load(), "OnDone tells what the server did")

			again := start(t.Context(), c, &conduit.Call{Op: 3})
			request = <-p.frames
			p.reply(request.xid, 0, 0, nil)
			require.NoError(t, (<-again).err, "the late reply was in order")
		})
	})
	t.Run("connection cut", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _, p := connected(t, newNetwork(t))
			var o outcomes
			done := start(t.Context(), c, &conduit.Call{Op: 3, OnDone: o.onDone})
			<-p.frames
			require.NoError(t, p.Close())
			require.ErrorIs(t, (<-done).err, conduit.ErrUnanswered)
			require.EqualValues(t, 1, o.count.Load())
		})
	})
	t.Run("no connection", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _ := open(t, newNetwork(t))
			var o outcomes
			err := c.Send(&conduit.Call{Op: 3, OnDone: o.onDone})
			require.ErrorIs(t, err, conduit.ErrNotSent)
			require.ErrorIs(t, err, conduit.ErrNotConnected)
			require.EqualValues(t, 1, o.count.Load())
		})
	})
	t.Run("closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _, _ := connected(t, newNetwork(t))
			require.Error(t, c.Close(), "the close request is not answered")
			got := <-start(t.Context(), c, &conduit.Call{Op: 3})
			require.ErrorIs(t, got.err, conduit.ErrNotSent)
			require.ErrorIs(t, got.err, conduit.ErrClosed)
		})
	})
}

// stuck returns a conduit whose first call, started already, is being written to a
// server that does not read, so that every later call waits to be sent.
// Underway waits until the write has begun.
func stuck(t *testing.T, o *outcomes, underway func(p *peer)) (c *conduit.Conduit, p *peer, first <-chan outcome) {
	t.Helper()
	n := newNetwork(t)
	n.deaf.Store(true)
	c, told := open(t, n)
	p = <-n.peers
	request := make([]byte, 48)
	for got := 0; got < len(request); {
		k := must.Get(p.Read(request[got:]))(t)
		got += k
	}
	p.send(handshake(int32(sessionTimeout.Milliseconds()), 0x51))
	require.Equal(t, "connected 51 fresh=true", <-told.told)
	first = start(t.Context(), c, &conduit.Call{Op: 3, OnDone: o.onDone})
	underway(p)
	return c, p, first
}

// TestCallReplyThatIsTooLarge costs its call, and nothing else.
func TestCallReplyThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, told, p := connected(t, newNetwork(t))
		first, second := &conduit.Call{Op: 3}, &conduit.Call{Op: 3}
		done := make(chan error, 1)
		go func() { done <- c.Do(t.Context(), first, second) }()
		a, b := <-p.frames, <-p.frames
		before, _ := c.Deadline()
		time.Sleep(time.Second)
		p.reply(a.xid, 7, 0, make([]byte, 1<<16))
		p.reply(b.xid, 8, 0, []byte("B"))
		require.ErrorIs(t, <-done, conduit.ErrReplyTooLarge)
		_, err := first.Result()
		require.ErrorIs(t, err, conduit.ErrReplyTooLarge)
		require.ErrorIs(t, err, conduit.ErrUnanswered)
		require.Equal(t, "B", string(must.Get(second.Result())(t).Body))
		after, _ := c.Deadline()
		require.Equal(t, before, after, "both were sent with the handshake")
		require.Empty(t, told.told, "the connection goes on")
	})
}

// TestCallMayAcceptLessThanOthers: a reply that it does not take is skipped, however long it is, and so is no event.
func TestCallMayAcceptLessThanOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, told, p := connected(t, newNetwork(t))
		calls := []*conduit.Call{{Op: 12, MaxReply: 100}, {Op: 12, MaxReply: 100}, {Op: 12, MaxReply: 100}, {Op: 12}}
		done := make(chan error, 1)
		go func() { done <- c.Do(t.Context(), calls...) }()
		p.reply(-1, -1, 0, append([]byte{0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 100, '/'}, strings.Repeat("n", 99)...))
		for i, length := range []int{70 << 20, 101 - 16, 100 - 16, 101 - 16} {
			p.reply((<-p.frames).xid, int64(7+i), 0, make([]byte, length))
		}
		require.ErrorIs(t, <-done, conduit.ErrReplyTooLarge)
		for i, call := range calls {
			_, err := call.Result()
			if i < 2 {
				require.ErrorIs(t, err, conduit.ErrReplyTooLarge)
			} else {
				require.NoError(t, err)
			}
		}
		require.Contains(t, <-told.told, "notified")
		require.Empty(t, told.told, "the connection goes on")
	})
}

// TestCallLongReplyTakesMemoryAsItComes: a server may say what it likes of the length.
func TestCallLongReplyTakesMemoryAsItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, newNetwork(t))
		call := &conduit.Call{Op: 12, MaxReply: math.MaxInt32}
		done := make(chan error, 1)
		go func() { done <- c.Do(t.Context(), call) }()
		request := <-p.frames
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		frame := binary.BigEndian.AppendUint32(nil, 1<<30)
		frame = binary.BigEndian.AppendUint32(frame, uint32(request.xid))
		p.send(append(frame, make([]byte, 1<<10)...))
		synctest.Wait()
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		require.Error(t, c.Close(), "the server is in the middle of a frame")
		require.ErrorIs(t, <-done, conduit.ErrUnanswered)
	})
}

// TestCallLongNotificationIsNotSkipped: the event would be lost without a word.
func TestCallLongNotificationIsNotSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, told, p := connected(t, newNetwork(t))
		p.reply(-1, -1, 0, make([]byte, 1<<16))
		require.Equal(t, "disconnected", <-told.told)
	})
}

func TestCallThatWaitsToBeSent(t *testing.T) {
	t.Run("is never sent once its context has ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var o outcomes
			c, p, first := stuck(t, &o, func(*peer) { synctest.Wait() })
			ctx, cancel := context.WithCancelCause(t.Context())
			var second outcomes
			done := start(ctx, c, &conduit.Call{Op: 4, OnDone: second.onDone})
			synctest.Wait()
			cancel(errGone)
			require.ErrorIs(t, (<-done).err, conduit.ErrNotSent)
			require.EqualValues(t, 1, second.count.Load())

			go p.read() // takes the first frame for the connect request
			<-p.connect
			synctest.Wait()
			require.Empty(t, p.frames)
			require.NoError(t, p.Close())
			require.ErrorIs(t, (<-first).err, conduit.ErrUnanswered)
			require.EqualValues(t, 1, o.count.Load())
			require.EqualValues(t, 1, second.count.Load())
		})
	})
	t.Run("is not sent when the connection is cut", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var o, second outcomes
			c, p, first := stuck(t, &o, func(*peer) { synctest.Wait() })
			done := start(t.Context(), c, &conduit.Call{Op: 4, OnDone: second.onDone})
			synctest.Wait()
			require.NoError(t, p.Close())
			require.ErrorIs(t, (<-first).err, conduit.ErrUnanswered, "it may have been written in part")
			require.ErrorIs(t, (<-done).err, conduit.ErrNotSent)
			require.EqualValues(t, 1, o.count.Load())
			require.EqualValues(t, 1, second.count.Load())
		})
	})
}

func TestCallBoundToAnotherSessionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, newNetwork(t))
		ours, others := &conduit.Call{Op: 3, Session: 0x51}, &conduit.Call{Op: 3, Session: 0x52}
		err := c.Do(t.Context(), ours, others)
		require.ErrorIs(t, err, conduit.ErrNotSent)
		require.ErrorIs(t, err, conduit.ErrOtherSession)
		synctest.Wait()
		require.Empty(t, p.frames, "all calls or none")

		done := start(t.Context(), c, &conduit.Call{Op: 3, Session: 0x51})
		request := <-p.frames
		p.reply(request.xid, 0, 0, nil)
		require.NoError(t, (<-done).err)
	})
}

// TestEventsComeInTheOrderOfTheStream: a notification before the replies that follow
// it, the end of the connection after all replies that were read and before the
// calls that will have none fail.
func TestEventsComeInTheOrderOfTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, told, p := connected(t, newNetwork(t))
		tell := func(name string) func(conduit.Reply, error) {
			return func(_ conduit.Reply, err error) { told.told <- fmt.Sprintf("%s answered=%t", name, err == nil) }
		}
		require.NoError(t, c.Send(
			&conduit.Call{Op: 3, OnDone: tell("first")}, &conduit.Call{Op: 3, OnDone: tell("second")},
			&conduit.Call{Op: 3, OnDone: tell("third")}))
		first, second := <-p.frames, <-p.frames
		<-p.frames // a write that fails would end the connection at once
		p.reply(first.xid, 0, 0, nil)
		p.reply(-1, -1, 0, []byte{0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, '/', 'a'})
		p.reply(second.xid, 0, 0, nil)
		require.NoError(t, p.Close())
		for _, want := range []string{
			"first answered=true", "notified EventNodeDeleted /a", "second answered=true", "disconnected", "third answered=false",
		} {
			require.Equal(t, want, <-told.told)
		}
	})
}

// TestCallReplyThatMakesNoSenseCostsItsOwnConnection, once, and not the next one.
func TestCallReplyThatMakesNoSenseCostsItsOwnConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told, p := connected(t, n)
		first, second := &conduit.Call{Op: 3}, &conduit.Call{Op: 3}
		for _, call := range []*conduit.Call{first, second} {
			done := make(chan error, 1)
			go func() { done <- c.Do(t.Context(), call) }()
			p.reply((<-p.frames).xid, 1, 0, []byte("nonsense"))
			require.NoError(t, <-done)
		}
		first.Distrust(conduit.ErrProtocol)
		require.Equal(t, "disconnected", <-told.told)
		(<-n.peers).accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=false", <-told.told)
		second.Distrust(conduit.ErrProtocol)
		synctest.Wait()
		require.Empty(t, told.told)
	})
}
