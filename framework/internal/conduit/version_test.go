package conduit_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
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
	_, err := q.Read(word)
	require.NoError(t, err)
	require.Equal(t, "srvr", string(word))
	_, err = q.Write([]byte(text))
	require.NoError(t, err)
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

// TestTheVersionIsAskedForByOneCaller: servers bound the connections of an address.
func TestTheVersionIsAskedForByOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		questions, change := asking(new(atomic.Bool))
		c, told := open(t, n, change)
		(<-n.peers).accept(0x51, sessionTimeout)
		require.Equal(t, "connected 51 fresh=true", <-told.told)

		outcomes := make(chan error, 100)
		check := func(ctx context.Context) {
			_, err := c.CheckVersion(ctx)
			outcomes <- err
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
		giveUp(first) // who asks; another asks then
		require.ErrorIs(t, <-outcomes, first)
		synctest.Wait()
		require.Len(t, questions, 2)
		require.Empty(t, outcomes)
		<-questions
		(<-questions).answer(t, modern)
		for range 50 {
			require.NoError(t, <-outcomes)
		}
		go check(t.Context())
		require.NoError(t, <-outcomes)
		require.Empty(t, questions)
	})
}

// TestTheServerOfTheConnectionIsAsked, and not another one of the same name.
func TestTheServerOfTheConnectionIsAsked(t *testing.T) {
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
				var server string
				done := make(chan error, 1)
				go func() {
					var err error
					server, err = c.CheckVersion(t.Context())
					done <- err
				}()
				q := <-questions
				require.Equal(t, "a:1", q.server)
				require.Equal(t, p.address, q.address)
				q.answer(t, answer)
				require.NoError(t, <-done)
				require.Equal(t, "a:1 ("+p.address+")", server)
			}
			checkAnswered("srvr is not executed because it is not in the whitelist.")
			server := told.last.Load().Endpoint
			require.Equal(t, "a:1 ("+p.address+")", server)
			var tooOld *conduit.TooOldError
			require.ErrorAs(t, c.NoteTooOld(server), &tooOld)
			_, err := c.CheckVersion(t.Context())
			require.ErrorAs(t, err, &tooOld)

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
