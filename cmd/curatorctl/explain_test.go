// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// TestExplainAdviceHelps: the first command that explain prints, as a user would copy it, lets the waiter in.
func TestExplainAdviceHelps(t *testing.T) {
	const path = "/locks/it's stuck"
	for _, test := range []struct {
		name   string
		block  func(t *testing.T, server zktest.Backend, client *framework.Framework)
		flags  []string
		reason inspect.Reason
	}{
		{name: "a znode made by hand", reason: inspect.ReasonForeign, block: func(t *testing.T, _ zktest.Backend, client *framework.Framework) {
			t.Helper()
			must.Get(client.Create(t.Context(), path+"/my-lock-0000000000", nil, framework.CreatingParentsIfNeeded()))(t)
		}},
		{name: "a killed holder", reason: inspect.ReasonLost, block: func(t *testing.T, server zktest.Backend, _ *framework.Framework) {
			t.Helper()
			client, proxy := zktest.ClientViaProxy(t, server)
			mutex := must.Get(locks.NewInterProcessMutex(client, path))(t)
			lease := must.Get(mutex.Acquire(zktest.Context(t)))(t)
			t.Cleanup(func() { _ = lease.Release(context.Background()) }) // it may be lost by then
			proxy.Refuse(true)
			proxy.Cut()
			t.Cleanup(func() { proxy.Refuse(false) })
		}},
		{name: "a holder that overstays", reason: inspect.ReasonOverstays, flags: []string{"-waiting-longer", "1ms"}, block: func(t *testing.T, _ zktest.Backend, client *framework.Framework) {
			t.Helper()
			mutex := must.Get(locks.NewInterProcessMutex(client, path, locks.WithoutReentry(), locks.WithRevocationListener(func(l *locks.Lease) {
				_ = l.Release(context.Background()) // the waiter shows it
			})))(t)
			must.Get(mutex.Acquire(zktest.Context(t)))(t)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client := zktest.Client(t, server)
				test.block(t, server, client)
				mutex := must.Get(locks.NewInterProcessMutex(client, path, locks.WithoutReentry()))(t)
				got := make(chan *locks.Lease, 1)
				go func() {
					lease, err := mutex.Acquire(zktest.Context(t))
					if err != nil {
						t.Errorf("the waiter: %v", err)
					}
					got <- lease
				}()
				for f, err := range client.FollowChildren(zktest.Context(t), path) {
					require.NoError(t, err)
					if len(f.Names) == 2 {
						break
					}
				}
				args := append([]string{"explain", path}, test.flags...)
				var e inspect.Explanation
				var said outcome
				for len(e.Findings) == 0 || e.Findings[0].Reason != test.reason { // the server may not have noticed yet
					said = curatorctl(t, server.ConnectString(), "", append(args, "-o", "json")...)
					require.NoError(t, json.Unmarshal([]byte(said.stdout), &e), said.stderr)
					require.NoError(t, zktest.Context(t).Err())
				}
				require.Equal(t, exitFound, said.status)
				said = curatorctl(t, server.ConnectString(), "", args...)
				require.Equal(t, exitFound, said.status)
				command := regexp.MustCompile(`(?m)^    (curatorctl .*)$`).FindStringSubmatch(said.stdout)
				require.NotNil(t, command, said.stdout)
				done := curatorctl(t, server.ConnectString(), "", words(command[1])[1:]...)
				require.Zero(t, done.status, "%s: %s", command[1], done.stderr)
				require.NoError(t, zktest.Await(t, got, "the lock").Release(t.Context()))
				require.NotEqual(t, exitFound, curatorctl(t, server.ConnectString(), "", args...).status) // 1 when the server has deleted the empty container
			})
		})
	}
}

// words are the words of a command line as a shell reads it, with quotes around a whole word.
func words(line string) (words []string) {
	for _, m := range regexp.MustCompile(`'((?:[^']|'\\'')*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		words = append(words, regexp.MustCompile(`'\\''`).ReplaceAllString(m[1], "'")+m[2])
	}
	return words
}

// TestExplainDeadlocks: a cycle has the status 2, and the commands that explain prints, one after the other, dissolve it.
func TestExplainDeadlocks(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx, stop := context.WithCancel(zktest.Context(t))
		paths, got := []string{"/locks/a", "/locks/b"}, make(chan error, 2)
		var second []locks.InterProcessLock
		var held []*locks.Lease
		for i := range paths {
			client := zktest.Client(t, server)
			for _, path := range []string{paths[i], paths[1-i]} {
				mutex := must.Get(locks.NewInterProcessMutex(client, path))(t)
				if path == paths[i] {
					held = append(held, holdLock(t, mutex))
				} else {
					second = append(second, mutex)
				}
			}
		}
		none := curatorctl(t, server.ConnectString(), "", "deadlocks", "-o", "json")
		require.Zero(t, none.status)
		require.Equal(t, "[]\n", none.stdout)
		for i, mutex := range second {
			go func() {
				lease, err := mutex.Acquire(held[i].Context(ctx))
				if err == nil {
					err = lease.Release(context.Background())
				}
				got <- err
			}()
		}
		var said outcome
		for said.status != exitFound { // they may not wait yet
			said = curatorctl(t, server.ConnectString(), "", "deadlocks", "-for", "10ms", "/locks")
			require.NoError(t, ctx.Err())
		}
		require.Contains(t, said.stdout, "2 clients wait for each other:")
		for _, advice := range []string{"revoke", "break"} { // the second is for one that was asked
			said = curatorctl(t, server.ConnectString(), "", "explain", "/locks/a")
			require.Equal(t, exitFound, said.status)
			command := regexp.MustCompile(`(?m)^    (curatorctl lock .*)$`).FindStringSubmatch(said.stdout)
			require.NotNil(t, command, said.stdout)
			require.Contains(t, command[1], advice)
			require.Zero(t, curatorctl(t, server.ConnectString(), "", words(command[1])[1:]...).status)
		}
		require.Zero(t, curatorctl(t, server.ConnectString(), "", "deadlocks", "-for", "10ms").status)
		err := errors.Join(zktest.Await(t, got, "the wait of a client"), zktest.Await(t, got, "the other wait"))
		lost := new(locks.LostError)
		require.ErrorAs(t, err, &lost, "of the one whose lock was broken; the other one gets it")
		stop()
	})
}

// TestExplainBadInput is refused before anything is sent.
func TestExplainBadInput(t *testing.T) {
	play(t, zktest.NewServer(t).Addr(), `
$ explain
[64] curatorctl: explain: 0 arguments, expected PATH
$ explain locks
[64] curatorctl: explain: invalid path*
$ explain -permits 0 /locks
[64] curatorctl: explain: *expected 1 or more*
$ explain /missing
[1] curatorctl: *node does not exist*
$ create /free
/free
$ explain /free
/free has no contender: it is no recipe, or a lock that is free.
`)
}
