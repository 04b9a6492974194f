// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/testkit/must"
)

// question is a connection on which a server is asked for its version.
type question struct {
	net.Conn
	server, address string
}

// answer lets the server say something.
func (q *question) answer(t *testing.T, text string) {
	t.Helper()
	word := make([]byte, 4)
	must.Get(q.Read(word))(t)
	require.Equal(t, "srvr", string(word))
	must.Get(q.Write([]byte(text)))(t)
	require.NoError(t, q.Close())
}

const modern = "Zookeeper version: 3.8.0-5a02, built on"

// asking makes every connection but the first of a client, and those after next is set, questions.
func asking(next *atomic.Bool) (questions chan *question, change func(*conduit.Config)) {
	questions = make(chan *question, 100)
	next.Store(true)
	return questions, func(cfg *conduit.Config) {
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, network, server string) (net.Conn, error) {
			if next.CompareAndSwap(true, false) {
				return dial(ctx, network, server)
			}
			client, end := net.Pipe()
			questions <- &question{end, server, conduit.Address(ctx)}
			return client, nil
		}
	}
}

// TestVersionIsAskedForByOneCaller: servers bound the connections of an address.
func TestVersionIsAskedForByOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		questions, change := asking(new(atomic.Bool))
		c, told := open(t, n, change)
		(<-n.peers).accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=true", <-told.told)

		outcomes := make(chan error, 100)
		check := func(ctx context.Context) {
			outcomes <- c.Lacks(ctx, 106)
		}
		impatient, giveUp := context.WithCancelCause(t.Context())
		go check(impatient)
		synctest.Wait()
		waiting, stopWaiting := context.WithCancelCause(t.Context())
		go check(waiting)
		for range 50 {
			go check(t.Context())
		}
		synctest.Wait()
		require.Len(t, questions, 1)

		first, second := errors.New("first"), errors.New("second")
		stopWaiting(second)
		require.ErrorIs(t, <-outcomes, second)
		giveUp(first) // who was the first to ask: the question goes on for the others
		require.ErrorIs(t, <-outcomes, first)
		synctest.Wait()
		require.Len(t, questions, 1)
		require.Empty(t, outcomes)
		(<-questions).answer(t, modern)
		for range 50 {
			require.NoError(t, <-outcomes)
		}
		go check(t.Context())
		require.NoError(t, <-outcomes)
		require.Empty(t, questions)
	})
}

// TestVersionServerOfTheConnectionIsAsked, and not another one of the same name.
func TestVersionServerOfTheConnectionIsAsked(t *testing.T) {
	for range 10 { // the order of addresses is random
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			next := new(atomic.Bool)
			addresses := byAddress(n, "10.0.0.1", "10.0.0.2")
			questions, change := asking(next)
			c, told := open(t, n, addresses, change)
			p := <-n.peers
			p.accept(0x51, sessionTimeout)
			require.Equal(t, "connected 51 fresh=true", <-told.told)
			checkAnswered := func(answer string) {
				done := make(chan error, 1)
				go func() { done <- c.Lacks(t.Context(), 106) }()
				q := <-questions
				require.Equal(t, "a:1", q.server)
				require.Equal(t, p.address, q.address)
				q.answer(t, answer)
				require.NoError(t, <-done)
			}
			checkAnswered("srvr is not executed because it is not in the whitelist.")
			call := &conduit.Call{Op: 106}
			request := start(t.Context(), c, call)
			p.reply((<-p.frames).xid, 0, -6, nil)
			require.NoError(t, (<-request).err)
			require.Equal(t, "a:1 ("+p.address+")", call.NoteTooOld().Server)
			var tooOld *conduit.TooOldError
			require.ErrorAs(t, c.Lacks(t.Context(), 106), &tooOld)

			// What one server of the name lacks, the next may have.
			for old := p.address; p.address == old; {
				next.Store(true)
				require.NoError(t, p.Close())
				require.Equal(t, "disconnected", <-told.told)
				p = <-n.peers
				p.accept(0x51, sessionTimeout)
				require.Equal(t, "connected 51 fresh=false", <-told.told)
			}
			checkAnswered(modern)
		})
	}
}

// TestVersionQuestionForTheVersionHasAnEnd: the connection's, or a limit after which the version is
// unknown.
func TestVersionQuestionForTheVersionHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		next := new(atomic.Bool)
		_, change := asking(next)
		c, told := open(t, n, change)
		p := <-n.peers
		p.accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=true", <-told.told)
		done := make(chan error, 1)
		check := func() { done <- c.Lacks(t.Context(), 106) }
		go check()
		synctest.Wait()
		require.Empty(t, done)

		next.Store(true)
		require.NoError(t, p.Close())
		synctest.Wait() // in which no time passes
		require.Len(t, done, 1)
		require.ErrorIs(t, <-done, conduit.ErrNotConnected)
		require.Equal(t, "disconnected", <-told.told)

		(<-n.peers).accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=false", <-told.told)
		impatient, giveUp := context.WithTimeout(t.Context(), time.Second)
		defer giveUp()
		require.ErrorIs(t, c.Lacks(impatient, 106), context.DeadlineExceeded)
		began := time.Now()
		require.NoError(t, c.Lacks(t.Context(), 106))
		require.Equal(t, sessionTimeout/6-time.Second, time.Since(began), "the same question")
	})
}

// TestVersionWhatAServerWasIsForgotten once it reports a version that has the request.
func TestVersionWhatAServerWasIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		next := new(atomic.Bool)
		questions, change := asking(next)
		c, told := open(t, n, change)
		p := <-n.peers
		p.accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=true", <-told.told)
		done := make(chan error, 1)
		check := func(answer string) error {
			go func() { done <- c.Lacks(t.Context(), 106) }()
			(<-questions).answer(t, answer)
			return <-done
		}
		call := &conduit.Call{Op: 106}
		call.OnDone = func(conduit.Reply, error) { require.Equal(t, "a:1", call.NoteTooOld().Server) }
		request := start(t.Context(), c, call)
		p.reply((<-p.frames).xid, 0, -6, nil)
		require.NoError(t, (<-request).err)
		var tooOld *conduit.TooOldError
		require.ErrorAs(t, check("srvr is not executed because it is not in the whitelist."), &tooOld)

		next.Store(true)
		require.NoError(t, p.Close())
		require.Equal(t, "disconnected", <-told.told)
		(<-n.peers).accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=false", <-told.told)
		require.NoError(t, check(modern), "it was upgraded")
	})
}

// TestVersionAddressOfSeveralServers: the one that says its version need not be the one that serves.
func TestVersionAddressOfSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		next := new(atomic.Bool)
		questions, change := asking(next)
		c, told := open(t, n, change)
		p := <-n.peers
		p.accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=true", <-told.told)
		done := make(chan error, 1)
		check := func(answer string) error {
			go func() { done <- c.Lacks(t.Context(), 106) }()
			(<-questions).answer(t, answer)
			return <-done
		}
		reconnect := func() {
			next.Store(true)
			require.NoError(t, p.Close())
			require.Equal(t, "disconnected", <-told.told)
			p = <-n.peers
			p.accept(0x51, sessionTimeout)
			require.Equal(t, "connected 51 fresh=false", <-told.told)
		}
		require.NoError(t, check(modern))
		call := &conduit.Call{Op: 106}
		request := start(t.Context(), c, call)
		p.reply((<-p.frames).xid, 0, -6, nil)
		require.NoError(t, (<-request).err)
		require.Equal(t, "a:1", call.NoteTooOld().Server)

		var tooOld *conduit.TooOldError
		reconnect()
		require.ErrorAs(t, check(modern), &tooOld, "it says the same as when it refused")
		reconnect()
		require.NoError(t, check("Zookeeper version: 3.9.3-f5a2, built on"), "it was upgraded")
	})
}

// TestVersionServerThatRefusesIsTooOld, and not the one that was asked for its version.
func TestVersionServerThatRefusesIsTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told := open(t, n, func(cfg *conduit.Config) { cfg.Servers = []string{"a:1", "b:1"} })
		p := <-n.peers
		p.accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=true", <-told.told)
		call := &conduit.Call{Op: 106}
		request := start(t.Context(), c, call)
		p.reply((<-p.frames).xid, 0, -6, nil)
		require.NoError(t, (<-request).err)
		require.NoError(t, p.Close())
		require.Equal(t, "disconnected", <-told.told)
		next := <-n.peers
		next.accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=false", <-told.told)
		require.NotEqual(t, p.address, next.address)
		require.Equal(t, p.address, call.NoteTooOld().Server)
	})
}
