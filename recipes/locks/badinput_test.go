// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// everyLock makes one of each kind.
func everyLock(t *testing.T, client *framework.Framework) map[string]locks.InterProcessLock {
	t.Helper()
	semaphore := must.Get(locks.NewInterProcessSemaphore(client, "/bad/semaphore", locks.FixedLeases(2)))(t)
	semaphoreMutex := must.Get(locks.NewInterProcessSemaphoreMutex(client, "/bad/semaphore-mutex"))(t)
	internals := must.Get(locks.NewLockInternals(client, locks.StandardLockInternalsDriver{
		StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: "own-"},
	}, "/bad/own", "own-", 1))(t)
	rw := newReadWrite(t, client, "/bad/read-write")
	return map[string]locks.InterProcessLock{
		"mutex": newMutex(t, client, "/bad/mutex"), "own": internals, "semaphore": semaphore,
		"semaphore v2":    newSemaphore(t, client, "/bad/v2", locks.FixedLeases(2)),
		"semaphore mutex": semaphoreMutex, "read": rw.ReadLock(), "write": rw.WriteLock(),
	}
}

// TestBadInput: each error says what was wrong and what was expected, and nothing has
// been sent.
func TestBadInput(t *testing.T) {
	var none context.Context
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr())
	var requests atomic.Int64
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpPing {
			requests.Add(1)
		}
		return zkserver.Pass
	})
	check := func(says string, err error) {
		t.Helper()
		require.ErrorContains(t, err, "locks: ")
		require.ErrorContains(t, err, says)
		require.False(t, framework.OutcomeUnknown(err))
	}
	const nilContext, nilFunction = "context nil, expected one such as context.Background()", "function nil, expected what to do"

	for name, lock := range everyLock(t, client) {
		t.Run(name, func(t *testing.T) {
			lease, err := lock.Acquire(none)
			check(nilContext, err)
			require.Nil(t, lease)
			lease, err = lock.TryAcquire(none)
			check(nilContext, err)
			require.Nil(t, lease)
			_, err = lock.(queue).Participants(none)
			check(nilContext, err)
			check(nilFunction, locks.Do(t.Context(), lock, nil))
			multi := newMulti(t, lock)
			_, err = multi.Acquire(none)
			check(nilContext, err)
			check(nilFunction, multi.Do(t.Context(), nil))
		})
	}
	var noMutex *locks.InterProcessMutex
	for _, lock := range []locks.InterProcessLock{nil, noMutex} {
		check("lock nil, expected an InterProcessLock", locks.Do(t.Context(), lock, func(context.Context) error { return nil }))
	}

	semaphore := newSemaphore(t, client, "/bad/v2", locks.FixedLeases(2))
	for n, says := range map[int]string{
		0: "0 leases, expected 1 or more", -1: "-1 leases, expected 1 or more",
		3: "3 are wanted, the maximum is 2", math.MaxInt: "are wanted, the maximum is 2", math.MinInt: "expected 1 or more",
	} {
		_, err := semaphore.AcquireN(t.Context(), n)
		check(says, err)
		_, err = semaphore.TryAcquireN(t.Context(), n)
		check(says, err)
	}
	shared := must.Get(locks.NewSharedLeases(client, "/bad/count", 1))(t)
	check(nilContext, shared.Set(none, 1))
	check("2147483648, expected", shared.Set(t.Context(), math.MaxInt32+1))
	_, _, err := shared.MaxLeases(none)
	check(nilContext, err)
	contender := "/bad/_c_00000000-0000-0000-0000-000000000000-lock-0000000000"
	check("client nil, expected", locks.AttemptRevoke(t.Context(), nil, contender))
	check("context nil, expected one such as", locks.AttemptRevoke(none, client, contender))
	check("expected the path of a contender's node", locks.AttemptRevoke(t.Context(), client, "/bad"))
	_, err = newMutex(t, client, "/bad/data", locks.WithLockData(make([]byte, 2<<20))).Acquire(t.Context())
	check("too large: a request of", err)
	require.ErrorIs(t, err, framework.ErrTooLarge)
	_, err = newMutex(t, client, "/zookeeper/locks").Acquire(t.Context())
	check("/zookeeper is ZooKeeper's own", err)
	require.Zero(t, requests.Load(), "nothing was sent")
	remove()

	held := newMutex(t, client, "/bad/held")
	lease := acquire(t, held)
	check(nilContext, lease.Release(none))
	require.NoError(t, lease.Err(), "what is refused changes nothing")
	_, err = lease.Transact(none, framework.CheckOp("/", framework.AnyVersion))
	require.ErrorContains(t, err, nilContext)
	require.PanicsWithValue(t, "locks: Context of a lease and a nil context", func() { lease.Context(none) })
	release(t, lease)
}

// TestBadConstructors: of the arguments that all constructors have.
func TestBadConstructors(t *testing.T) {
	client := must.Get(framework.New("127.0.0.1:1"))(t)
	defer func() { require.NoError(t, client.Close()) }()
	two := locks.FixedLeases(2)
	for name, create := range map[string]func(*framework.Framework, string, ...locks.Option) error{
		"mutex": func(f *framework.Framework, path string, opts ...locks.Option) error {
			_, err := locks.NewInterProcessMutex(f, path, opts...)
			return err
		},
		"semaphore": func(f *framework.Framework, path string, opts ...locks.Option) error {
			_, err := locks.NewInterProcessSemaphore(f, path, two, opts...)
			return err
		},
		"semaphore v2": func(f *framework.Framework, path string, opts ...locks.Option) error {
			_, err := locks.NewInterProcessSemaphoreV2(f, path, two, opts...)
			return err
		},
		"semaphore mutex": func(f *framework.Framework, path string, opts ...locks.Option) error {
			_, err := locks.NewInterProcessSemaphoreMutex(f, path, opts...)
			return err
		},
		"read/write": func(f *framework.Framework, path string, opts ...locks.Option) error {
			_, err := locks.NewInterProcessReadWriteLock(f, path, opts...)
			return err
		},
		"own": func(f *framework.Framework, path string, opts ...locks.Option) error {
			_, err := locks.NewLockInternals(f, locks.StandardLockInternalsDriver{}, path, "own-", 1, opts...)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, create(nil, "/a"), "client nil, expected")
			for _, path := range []string{"", "a", "//", "/a/", "/a//b", "/.", "/a\x00", "/\xff"} {
				require.ErrorIs(t, create(client, path), framework.ErrInvalidPath, "%q", path)
			}
			for says, option := range map[string]locks.Option{
				"a nil option":                                      nil,
				"error policy 7, expected":                          locks.WithErrorPolicy(7),
				`recipe name "", expected`:                          locks.WithRecipeName(""),
				"WithQueueListener(nil), expected":                  locks.WithQueueListener(nil),
				"WithMaxHold(0s), expected more than 0":             locks.WithMaxHold(0),
				"WithLockDelay(-1s), expected more than 0":          locks.WithLockDelay(-time.Second),
				"WithRevocationListener(nil), expected":             locks.WithRevocationListener(nil),
				"lock data __REVOKE__, which asks for the lock to ": locks.WithLockData([]byte("__REVOKE__")),
			} {
				require.ErrorContains(t, create(client, "/a", option), says)
			}
		})
	}
	var noLeases *locks.SharedLeases
	for _, n := range []locks.MaxLeases{nil, noLeases, locks.FixedLeases(0), locks.FixedLeases(-1)} {
		_, err := locks.NewInterProcessSemaphore(client, "/a", n)
		require.ErrorContains(t, err, "locks: maxLeases")
		_, err = locks.NewInterProcessSemaphoreV2(client, "/a", n)
		require.ErrorContains(t, err, "locks: maxLeases")
	}
	_, err := locks.NewInterProcessSemaphoreV2(client, "/a", two, locks.WithLockDelay(time.Second))
	require.ErrorContains(t, err, "WithLockDelay, expected with an InterProcessMutex only")
	_, err = locks.NewLockInternals(client, locks.StandardLockInternalsDriver{}, "/a", "own-", 0)
	require.ErrorContains(t, err, "maxLeases 0, expected 1 or more")
	var noDriver *locks.StandardLockInternalsDriver
	for _, driver := range []locks.LockInternalsDriver{nil, noDriver} {
		_, err = locks.NewLockInternals(client, driver, "/a", "own-", 1)
		require.ErrorContains(t, err, "locks: driver nil, expected")
	}
	_, err = locks.NewLockInternals(client, locks.StandardLockInternalsDriver{}, "/a", "b/own-", 1)
	require.ErrorContains(t, err, `lock name "b/own-", expected one without a slash`)
	_, err = locks.NewLockInternals(client, locks.StandardLockInternalsDriver{}, "/a", "", 1)
	require.EqualError(t, err, `locks: lock name "", expected one without a slash, such as "lock-"`)
	_, err = locks.NewInterProcessMultiLock()
	require.ErrorContains(t, err, "without members, expected one or more")
	var noMutex *locks.InterProcessMutex
	for _, lock := range []locks.InterProcessLock{nil, noMutex} {
		_, err = locks.NewInterProcessMultiLock(newMutex(t, client, "/a"), lock)
		require.EqualError(t, err, "locks: member 1 of a multi-lock is nil, expected an InterProcessLock")
	}
	_, err = locks.NewSharedLeases(nil, "/a", 1)
	require.ErrorContains(t, err, "client nil, expected")
	_, err = locks.NewSharedLeases(client, "a", 1)
	require.ErrorIs(t, err, framework.ErrInvalidPath)
	_, err = locks.NewSharedLeases(client, "/a", math.MinInt)
	require.ErrorContains(t, err, "expected")
}

// TestSecretsAreToldToNobody: not by the locks of a client that has one either.
func TestSecretsAreToldToNobody(t *testing.T) {
	const secret = "open-sesame"
	said := new(lineLog)
	log := slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	client := zktest.Client(t, zktest.NewServer(t).Addr(),
		framework.WithAuth("digest", []byte("alice:"+secret)), framework.WithLogger(log))
	values := []any{locks.WithLockData([]byte("me"))}
	for _, lock := range everyLock(t, client) {
		lease := acquire(t, lock)
		again, failure := lock.TryAcquire(lease.Context(t.Context()))
		values = append(values, lock, lease, lease.Context(t.Context()), failure)
		require.NoError(t, again.Release(t.Context()))
		release(t, lease)
		values = append(values, lease, lease.Err(), newMulti(t, lock))
	}
	for _, v := range values {
		log.Info("value", "it", v)
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			must.Get(fmt.Fprintf(said, format+"\n", v))(t)
		}
	}
	require.Equal(t, "no lease", (*locks.Lease)(nil).String())
	text := strings.ToLower(strings.Join(said.with(""), "\n"))
	require.Contains(t, text, "/bad/", "the test reads what is told")
	for _, form := range []string{"%s", "%x", "%d"} {
		require.NotContains(t, text, strings.Trim(fmt.Sprintf(form, []byte(secret)), "[]"))
	}
}
