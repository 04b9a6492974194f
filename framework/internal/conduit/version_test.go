// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"context"
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
