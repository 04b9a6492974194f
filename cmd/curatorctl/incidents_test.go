// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/interop"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	zookeeper "github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// incident is a mutex with a holder and a waiter, what becomes of the holder's connection, and what explain must say.
type incident struct {
	name    string
	clients int
	foreign bool // a znode is in the way
	timeout time.Duration
	gone    func(proxy *zkproxy.Proxy, is bool)

	told, untold verdict // where the servers tell of their sessions, even with one of them down; and by ZooKeeper's default
}

type verdict struct {
	reason inspect.Reason
	answer inspect.Answer
	status int
}

// A session must not expire before its incident is explained. Half of the timeout of a paused client must pass before it is silent.
var incidents = []incident{
	{name: "free", told: verdict{inspect.ReasonFree, inspect.No, exitDone}, untold: verdict{inspect.ReasonFree, inspect.No, exitDone}},
	{
		name: "healthy", clients: 2, timeout: time.Minute,
		told: verdict{inspect.ReasonTurn, inspect.No, exitDone}, untold: verdict{inspect.ReasonUnknown, inspect.Unknown, exitUnknown},
	},
	{
		name: "killed", clients: 2, timeout: time.Minute, gone: func(p *zkproxy.Proxy, is bool) { p.Refuse(is); p.Cut() },
		told: verdict{inspect.ReasonLost, inspect.Yes, exitFound}, untold: verdict{inspect.ReasonUnknown, inspect.Unknown, exitUnknown},
	},
	{
		name: "paused", clients: 2, timeout: 20 * time.Second, gone: func(p *zkproxy.Proxy, is bool) { p.Pause(is) },
		told: verdict{inspect.ReasonSilent, inspect.Yes, exitFound}, untold: verdict{inspect.ReasonUnknown, inspect.Unknown, exitUnknown},
	},
	{
		name: "a znode in the way", clients: 1, foreign: true, timeout: time.Minute,
		told: verdict{inspect.ReasonForeign, inspect.Yes, exitFound}, untold: verdict{inspect.ReasonForeign, inspect.Yes, exitFound},
	},
}

// TestExplainIncidents: thirty incidents on three real servers, with the answer and the exit status of each: of Go and of Java, where the
// servers tell of their sessions, with one of these servers down, and by ZooKeeper's default.
func TestExplainIncidents(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test starts ZooKeeper and Java processes")
	}
	java := must.Get(interop.Start(t.Context()))(t)
	t.Cleanup(func() { assert.NoError(t, java.Close()) })
	t.Run("all words", func(t *testing.T) {
		e := zktest.NewEnsemble(t, 3)
		t.Run("all servers", func(t *testing.T) { explainIncidents(t, java, e, false) })
		require.NoError(t, must.Get(e.Followers(t.Context()))(t)[1].Kill())
		t.Run("one server down", func(t *testing.T) { explainIncidents(t, java, e, false) })
	})
	t.Run("default words", func(t *testing.T) {
		words := zookeeper.WithConfig("4lw.commands.whitelist", "srvr,conf") // by conf the ensemble knows its servers
		explainIncidents(t, java, zktest.NewEnsemble(t, 3, words), true)
	})
}

// explainIncidents has all incidents happen side by side.
func explainIncidents(t *testing.T, java *interop.Java, e *zookeeper.Ensemble, untold bool) {
	t.Helper()
	leader := must.Get(e.Leader(t.Context()))(t)
	client := zktest.Client(t, e.ConnectString())
	for _, i := range incidents {
		for _, language := range []string{"Go", "Java"} {
			t.Run(i.name+" of "+language, func(t *testing.T) {
				t.Parallel()
				path := "/" + t.Name()
				must.Get(client.Create(t.Context(), path, nil, framework.CreatingParentsIfNeeded()))(t)
				others := 0
				if i.foreign {
					others++
					must.Get(client.Create(t.Context(), path+"/my-lock-0000000000", nil))(t)
				}
				proxy := zktest.NewProxy(t, leader.Addr())
				for n := range i.clients {
					servers := []string{proxy.Addr(), leader.Addr()}[n]
					if language == "Go" {
						contend(t, servers, path, i.timeout)
					} else {
						contendInJava(t, java.Actor(fmt.Sprint(path, n)), servers, path, i.timeout)
					}
					awaitContenders(t, client, path, n+1+others)
				}
				want, began := i.told, time.Now()
				if untold {
					want = i.untold
				}
				if i.gone != nil {
					i.gone(proxy, true)
					t.Cleanup(func() { i.gone(proxy, false) })
				}
				for {
					said := curatorctl(t, e.ConnectString(), "", "explain", path, "-o", "json")
					var told inspect.Explanation
					require.NoError(t, json.Unmarshal([]byte(said.stdout), &told), said.stderr)
					got := verdict{told.Findings[0].Reason, told.Answer, said.status}
					if i.gone != nil && got != want && time.Since(began) < i.timeout { // the servers learn of it
						continue
					}
					require.Equal(t, want, got, told)
					t.Logf("%v after %v", got, time.Since(began).Round(100*time.Millisecond))
					return
				}
			})
		}
	}
}

// contend has a client of its own acquire the mutex, and keep it until the test ends.
func contend(t *testing.T, servers, path string, timeout time.Duration) {
	t.Helper()
	mutex := must.Get(locks.NewInterProcessMutex(zktest.Client(t, servers, framework.WithSessionTimeout(timeout)), path))(t)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		lease, err := mutex.Acquire(ctx)
		if err != nil {
			return
		}
		<-ctx.Done()
		_ = lease.Release(context.Background()) // it may be lost by then
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

// contendInJava does the same with Curator's mutex, until the process ends.
func contendInJava(t *testing.T, actor *interop.Actor, servers, path string, timeout time.Duration) {
	t.Helper()
	for _, command := range [][]string{{"connect", servers, strconv.FormatInt(timeout.Milliseconds(), 10)}, {"mutex", "m", path}} {
		must.Get(actor.Do(zktest.Context(t), command[0], command[1:]...))(t)
	}
	actor.Begin("acquire", "m")
}
