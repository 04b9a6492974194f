// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestNotAcquiredOutageIsNoContender: a call that fails for want of a server does not say that
// somebody else has the lock, and a try ends as soon as any other request does.
func TestNotAcquiredOutageIsNoContender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server, framework.WithConnectionTimeout(200*time.Millisecond), framework.WithRetryPolicy(retry.None()))
		mutex := newMutex(t, client, "/lock")
		semaphore := newSemaphore(t, client, "/semaphore", locks.FixedLeases(1))
		rw := newReadWrite(t, client, "/rw")
		held := acquire(t, newMutex(t, zktest.Client(t, server), "/behind"))
		behind := acquireLater(withDeadline(t, 5*time.Second), newMutex(t, client, "/behind"))
		time.Sleep(time.Second)
		allow := server.Refuse()
		server.Cut(client.Session().ID(), 1)
		time.Sleep(time.Second)

		for _, lock := range []locks.InterProcessLock{mutex, semaphore, rw.ReadLock(), rw.WriteLock()} {
			began := time.Now()
			_, err := lock.TryAcquire(context.Background())
			require.ErrorIs(t, err, framework.ErrNotConnected)
			require.NotErrorIs(t, err, locks.ErrNotAcquired)
			require.LessOrEqual(t, time.Since(began), 250*time.Millisecond)

			_, err = lock.Acquire(withDeadline(t, time.Second))
			require.ErrorIs(t, err, framework.ErrNotConnected)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, locks.ErrNotAcquired)
			require.ErrorContains(t, err, "the newest attempt")
		}
		o := await(t, behind)
		require.ErrorIs(t, o.err, framework.ErrNotConnected, "whether the lock is held any more is unknown")
		require.ErrorIs(t, o.err, context.DeadlineExceeded)
		require.NotErrorIs(t, o.err, locks.ErrNotAcquired)
		allow()
		release(t, held)
	})
}

func withDeadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestNotAcquiredWhoIsInTheWay: the error names the contenders that stand before.
func TestNotAcquiredWhoIsInTheWay(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		held := acquire(t, newMutex(t, w.holder, "/lock", locks.WithLabel("replica-7")))
		first := acquireLater(withDeadline(t, time.Minute), newMutex(t, w.waiter, "/lock"))
		time.Sleep(time.Second)
		cause := errors.New("the shop closes")
		ctx, cancel := context.WithCancelCause(context.Background())
		second := acquireLater(ctx, newMutex(t, w.waiter, "/lock", locks.WithLabel("till")))
		time.Sleep(time.Second)
		_, tried := newMutex(t, w.waiter, "/lock").TryAcquire(context.Background())
		cancel(cause)
		o := await(t, second)
		require.ErrorIs(t, o.err, context.Canceled)
		require.ErrorIs(t, o.err, cause)
		_, err := newMutex(t, w.waiter, "/free").Acquire(ctx)
		require.EqualError(t, err, "locks: acquire /free: context canceled: the shop closes")
		o1 := await(t, first)
		for err, position := range map[error]int{o.err: 2, tried: 2, o1.err: 1} {
			require.ErrorIs(t, err, locks.ErrNotAcquired)
			refused := must.As[*locks.NotAcquiredError](t, err)
			require.Equal(t, position, refused.Position)
			ahead := refused.Ahead()
			require.Len(t, ahead, position)
			require.NotEmpty(t, ahead[position-1].Host)
			if err == tried { //nolint:errorlint // those of its own client, without a request
				require.NotEqual(t, held.Path(), ahead[0].Path)
				continue
			}
			require.Equal(t, held.Path(), ahead[0].Path)
			require.ErrorContains(t, err, held.Path())
		}
		require.ErrorContains(t, o1.err, "replica-7", "the waiter has read it")
		release(t, held)
	})
}

// TestNotAcquiredWaitSurvivesItsReturn: an acquisition that has stood in the queue loses its session, and
// then fails to join the queue again.
func TestNotAcquiredWaitSurvivesItsReturn(t *testing.T) {
	for name, test := range map[string]struct {
		fail    func(w longWait, session int64)
		prepare func(w longWait, again *framework.Session)
	}{
		"the reply is lost": {fail: func(w longWait, session int64) {
			w.server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.LoseReply))
			w.server.KillSession(session)
		}},
		"the next session ends": {
			fail: func(w longWait, session int64) { w.server.KillSession(session) },
			prepare: func(w longWait, again *framework.Session) {
				w.server.KillSession(again.ID())
				<-again.Done()
			},
		},
		"the server has no quorum": {fail: func(w longWait, _ int64) {
			time.AfterFunc(30*time.Second, w.server.LoseQuorum())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				client := zktest.Client(t, w.server, framework.WithRetryPolicy(retry.None()), framework.WithReadOnly())
				created := 0
				lock := openCreator(t, client, "/lock", func(session *framework.Session) (node locks.LockNode, ok bool) {
					if created++; created == 2 && test.prepare != nil {
						test.prepare(w, session)
					}
					return node, false
				})
				held := acquire(t, newMutex(t, w.holder, "/lock"))
				result := acquireLater(context.Background(), lock)
				time.Sleep(time.Second)
				test.fail(w, client.Session().ID())
				time.Sleep(time.Minute)
				_ = held.Release(context.Background()) // it may have been lost
				o := await(t, result)
				require.NoError(t, o.err)
				require.Greater(t, created, 2, "one attempt has failed")
				release(t, o.lease)
			})
		})
	}
}

// TestNotAcquiredNoHoldBeginsOnASilentLink: the nodes of a holder and of the next goroutine of its
// client are deleted while their link is silent, and another client has the lock. The
// goroutine is not let in by the word of the holder.
func TestNotAcquiredNoHoldBeginsOnASilentLink(t *testing.T) {
	for _, policy := range []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy} {
		t.Run(policy.String(), func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				mutex := newMutex(t, w.waiter, "/lock", locks.WithErrorPolicy(policy))
				held := acquire(t, mutex)
				next := acquireLater(context.Background(), mutex)
				time.Sleep(100 * time.Millisecond)
				rival := newMutex(t, w.holder, "/lock")
				queue := awaitQueue(t, rival, 2)
				heal := w.server.Blackhole(w.waiter.Session().ID(), zkserver.Both)
				for _, p := range queue {
					require.NoError(t, w.holder.Delete(t.Context(), p.Path))
				}
				theirs := acquire(t, rival)
				time.Sleep(300 * time.Millisecond)
				ended, cancel := context.WithCancel(context.Background())
				cancel()
				_ = held.Release(ended) // it is lost, or its deletion is pending
				synctest.Wait()
				requireWaiting(t, next)
				heal()
				time.Sleep(10 * time.Second)
				requireWaiting(t, next)
				release(t, theirs)
				release(t, await(t, next).lease)
			})
		})
	}
}

// TestNotAcquiredWaitForOneselfIsLogged: a goroutine waits for a lock that its own process holds,
// which may be a context that was not passed on. The log says so once for each hold.
func TestNotAcquiredWaitForOneselfIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		var log lineLog
		client := zktest.Client(t, server, log.option())
		rw := newReadWrite(t, client, "/rw", locks.WithLabel("indexer"))
		reader := acquire(t, rw.ReadLock())
		ctx, giveUp := context.WithCancel(context.Background())
		upgrade, another := acquireLater(ctx, rw.WriteLock()), acquireLater(ctx, rw.WriteLock())
		time.Sleep(9 * time.Second)
		require.Empty(t, log.with("holds itself"))
		time.Sleep(time.Minute)
		require.Len(t, log.with("holds itself"), 1)
		require.Contains(t, log.with("holds itself")[0], "label=indexer")
		giveUp()
		require.Error(t, await(t, upgrade).err)
		require.Error(t, await(t, another).err)
		release(t, reader)
	})
}

// TestNotAcquiredTimeoutThatNothingConfirms: a session so short that no heartbeat can confirm it is
// refused under QuorumErrorPolicy, and so is one whose server answers too slowly. The
// place in the queue is given up.
func TestNotAcquiredTimeoutThatNothingConfirms(t *testing.T) {
	const tick = 2 * time.Second
	for name, test := range map[string]struct {
		timeout, delay time.Duration
		want           string
	}{
		"too short": {tick, 0, "expected a timeout of 8s or more"},
		"too slow":  {2 * tick, 900 * time.Millisecond, "the servers answer too slowly"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithTick(tick/4))
				client := zktest.Client(t, server, framework.WithSessionTimeout(test.timeout), framework.WithServerTiming(tick, 5))
				require.Equal(t, test.timeout, client.Session().Timeout())
				// The first hold of a process in a short session asks what to warn of.
				release(t, acquire(t, newMutex(t, client, "/first")))
				synctest.Wait()
				defer server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.SessionID == client.Session().ID() && test.delay > 0 {
						return zkserver.Delay(test.delay)
					}
					return zkserver.Pass
				})()
				mutex := newMutex(t, client, "/lock", locks.WithErrorPolicy(framework.QuorumErrorPolicy))
				_, err := mutex.Acquire(withDeadline(t, 10*time.Minute))
				require.ErrorContains(t, err, test.want)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				release(t, acquire(t, newMutex(t, zktest.Client(t, server), "/lock")))
			})
		})
	}
}
