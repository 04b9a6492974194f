// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// adopting is how long what a process has left waits to be adopted.
const adopting = 5 * time.Second

// restarts are a program that is killed and started again, beside another client.
type restarts struct {
	t      *testing.T
	server *zkserver.Server
	file   string
	client *framework.Framework // of the program
	other  *framework.Framework
}

// withRestarts runs a test of a program that is started again.
func withRestarts(t *testing.T, test func(t *testing.T, r *restarts)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		r := &restarts{t: t, server: server, file: filepath.Join(t.TempDir(), "session"), other: zktest.Client(t, server)}
		r.start()
		test(t, r)
	})
}

func (r *restarts) start(opts ...framework.Option) {
	r.client = zktest.Client(r.t, r.server, append(opts, framework.WithSessionFile(r.file))...)
}

// restart kills the program, and starts it again.
func (r *restarts) restart(opts ...framework.Option) {
	r.t.Helper()
	session := r.client.Session().ID()
	zktest.KillProcess(r.t, r.server, r.client)
	r.start(opts...)
	require.Equal(r.t, session, r.client.Session().ID())
}

// isWaiting checks that an acquisition has not returned.
func isWaiting(t *testing.T, o <-chan outcome) {
	t.Helper()
	synctest.Wait()
	require.Empty(t, o, "it has not waited")
}

// TestRestartedHolderStaysHolder of locks of every exclusive kind, with its token. The next contender waits for its release.
func TestRestartedHolderStaysHolder(t *testing.T) {
	for name, open := range exclusive {
		if name == "multi-lock" {
			continue // it has no token of its own
		}
		t.Run(name, func(t *testing.T) {
			withRestarts(t, func(t *testing.T, r *restarts) {
				lock := func(client *framework.Framework, label string) contended {
					l, ok := open(t, client, "/lock", locks.WithLabel(label)).(contended)
					require.True(t, ok)
					return l
				}
				before := acquire(t, lock(r.client, "a"))
				next := acquireLater(zktest.Context(t), lock(r.other, "b"))
				isWaiting(t, next)
				r.restart()
				mutex := lock(r.client, "a")
				lease := acquire(t, mutex)
				require.Equal(t, before.Token(), lease.Token())
				require.Equal(t, before.Path(), lease.Path())
				second := acquireLater(zktest.Context(t), mutex)
				time.Sleep(3 * adopting)
				require.NoError(t, lease.Err())
				isWaiting(t, next)
				isWaiting(t, second)
				release(t, lease)
				o := await(t, next)
				require.NoError(t, o.err)
				require.Greater(t, o.lease.Token(), lease.Token())
				isWaiting(t, second)
				release(t, o.lease)
				release(t, await(t, second).lease)
			})
		})
	}
}

// TestRestartedHolderThatCompressesFromNowOn stays the holder.
func TestRestartedHolderThatCompressesFromNowOn(t *testing.T) {
	withRestarts(t, func(t *testing.T, r *restarts) {
		before := acquire(t, newMutex(t, r.client, "/lock"))
		for range 2 {
			r.restart(framework.WithCompression())
			lease := acquire(t, newMutex(t, r.client, "/lock"))
			require.Equal(t, before.Token(), lease.Token())
			time.Sleep(2 * adopting)
			require.NoError(t, lease.Err())
		}
	})
}

// TestRestartedWaiterKeepsItsPlace between a holder and another waiter.
func TestRestartedWaiterKeepsItsPlace(t *testing.T) {
	withRestarts(t, func(t *testing.T, r *restarts) {
		held := acquire(t, newMutex(t, r.other, "/lock"))
		acquireLater(zktest.Context(t), newMutex(t, r.client, "/lock"))
		synctest.Wait()
		last := acquireLater(zktest.Context(t), newMutex(t, zktest.Client(t, r.server), "/lock"))
		synctest.Wait()
		r.restart()
		restarted := acquireLater(zktest.Context(t), newMutex(t, r.client, "/lock"))
		time.Sleep(2 * adopting)
		release(t, held)
		o := await(t, restarted)
		require.NoError(t, o.err)
		isWaiting(t, last)
		release(t, o.lease)
		require.NoError(t, await(t, last).err)
	})
}

// TestRestartedTryAdopts the contender of the process before, too.
func TestRestartedTryAdopts(t *testing.T) {
	withRestarts(t, func(t *testing.T, r *restarts) {
		before := acquire(t, newMutex(t, r.client, "/lock"))
		r.restart()
		mutex := newMutex(t, r.client, "/lock")
		lease, err := mutex.TryAcquire(zktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, before.Token(), lease.Token())
		_, err = mutex.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)
	})
}

// TestRestartedProgramAdoptsItsOwnOnly: what it does not adopt is no holder for long.
func TestRestartedProgramAdoptsItsOwnOnly(t *testing.T) {
	for name, test := range map[string]struct {
		before, after []locks.Option
		change        func(t *testing.T, r *restarts, lease *locks.Lease)
	}{
		"another label": {[]locks.Option{locks.WithLabel("a")}, []locks.Option{locks.WithLabel("b")}, nil},
		"no label":      {[]locks.Option{locks.WithLabel("a")}, nil, nil},
		"other data":    {[]locks.Option{locks.WithLockData([]byte("a"))}, []locks.Option{locks.WithLockData([]byte("b"))}, nil},
		"it was revoked": {nil, nil, func(t *testing.T, r *restarts, lease *locks.Lease) {
			require.NoError(t, locks.AttemptRevoke(zktest.Context(t), r.other, lease.Path()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withRestarts(t, func(t *testing.T, r *restarts) {
				before := acquire(t, newMutex(t, r.client, "/lock", test.before...))
				next := acquireLater(zktest.Context(t), newMutex(t, r.other, "/lock"))
				isWaiting(t, next)
				if test.change != nil {
					test.change(t, r, before)
				}
				r.restart()
				began := time.Now()
				again := acquireLater(zktest.Context(t), newMutex(t, r.client, "/lock", test.after...))
				o := await(t, next)
				require.NoError(t, o.err)
				require.WithinDuration(t, began.Add(adopting), time.Now(), time.Second)
				isWaiting(t, again)
				release(t, o.lease)
				o = await(t, again)
				require.NoError(t, o.err)
				require.Greater(t, o.lease.Token(), before.Token())
			})
		})
	}
}

// TestRestartedReaderDoesNotAdopt: a reader's node may stand in the place of a writer, which would be adopted as well.
func TestRestartedReaderDoesNotAdopt(t *testing.T) {
	withRestarts(t, func(t *testing.T, r *restarts) {
		lock := newReadWrite(t, r.client, "/lock")
		written := acquire(t, lock.WriteLock())
		_, err := lock.ReadLock().Acquire(written.Context(zktest.Context(t)))
		require.NoError(t, err)
		r.restart()
		lock = newReadWrite(t, r.client, "/lock")
		read := acquireLater(zktest.Context(t), lock.ReadLock())
		isWaiting(t, read)
		writer := acquire(t, lock.WriteLock())
		require.Equal(t, written.Token(), writer.Token())
		time.Sleep(2 * adopting)
		isWaiting(t, read)
		release(t, writer)
		require.NoError(t, await(t, read).err)
	})
}

// TestRestartedHolderWhoseRequestsFail is the holder with its token, or holds nothing for long.
func TestRestartedHolderWhoseRequestsFail(t *testing.T) {
	for _, fault := range []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply} {
		for _, op := range []zkserver.OpCode{zkserver.OpGetData, zkserver.OpSetData, zkserver.OpGetChildren2} {
			t.Run(fault.String()+" "+op.String(), func(t *testing.T) {
				withRestarts(t, func(t *testing.T, r *restarts) {
					before := acquire(t, newMutex(t, r.client, "/lock"))
					next := acquireLater(zktest.Context(t), newMutex(t, r.other, "/lock"))
					isWaiting(t, next)
					r.restart()
					r.server.Intercept(zkserver.Nth(1, op, fault))
					lease := acquire(t, newMutex(t, r.client, "/lock"))
					require.Equal(t, before.Token(), lease.Token())
					time.Sleep(2 * adopting)
					isWaiting(t, next)
					release(t, lease)
					require.NoError(t, await(t, next).err)
				})
			})
		}
	}
}
