// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

var (
	leaderSpec = lockSpec{Name: "leader-s", Workload: "leader"}
	onceSpec   = lockSpec{Name: "once-s", Workload: "once"}
)

// runOf is a run of a key for a plan, with what became of its marker.
func runOf(client, key string, token int, from, to int64, marked outcome) []event {
	events := take(client, "once-s#"+key, token, from, to)
	return append(events, event{At: at(to + 1), Kind: ran, Hold: events[1].Hold, Lock: "once-s#" + key, Value: key, Outcome: marked})
}

// mark commits the marker of a key, with the token of its run.
func (p *plan) mark(key string, zxid, ms int64, token int) {
	p.createNode("a", zxid, ms, onceSpec.path()+"/done/"+key, strconv.Itoa(token))
}

// breaches are the violations of one promise that all checks find in a plan.
func breaches(t *testing.T, p *plan, of promise) string {
	t.Helper()
	var page strings.Builder
	if judge(&page, p.save(t)) != nil {
		require.Contains(t, lastLine(page.String()), string(of)+"=")
	}
	return page.String()
}

func TestWorkloadLeaderTwoLeaders(t *testing.T) {
	t.Parallel()
	one, next := take("a", "leader-s", 1, 5, 10), take("b", "leader-s", 2, 10, 15)
	require.Contains(t, breaches(t, only(leaderSpec, nil, one, next), oneLeader), "two_leaders=0")

	page := breaches(t, only(leaderSpec, nil, one, take("b", "leader-s", 2, 9, 15)), oneLeader)

	require.Contains(t, page, "two_leaders=1")
	require.Contains(t, page, "leader-s is held twice for 1ms")
	require.Contains(t, page, "overlaps=0", "it is counted once, under its own name")

	// By the servers' log the node of the one before was still there.
	p := only(leaderSpec, nil, one, next)
	p.commit(txnCreate2, 'a', 1, 1, one[1].Node)
	p.commit(txnCreate2, 'b', 2, 2, next[1].Node)
	p.commit(txnDelete, 'a', 3, 20, one[1].Node)
	require.Contains(t, breaches(t, p, oneLeader), "two_leaders=1")
}

func TestWorkloadLeaderTermsRise(t *testing.T) {
	t.Parallel()
	broken(t, tokens, risingTokens, only(leaderSpec, nil, take("a", "leader-s", 2, 5, 10), take("b", "leader-s", 1, 11, 15)))
}

func TestWorkloadLeaderTwiceRun(t *testing.T) {
	t.Parallel()
	find := func(r *roundReport) []violation { return twiceRun(r, onceSpec) }
	kept(t, find, only(onceSpec, nil, runOf("a", "until-1", 1, 5, 10, refused), runOf("b", "until-1", 2, 12, 15, accepted)))
	kept(t, find, only(onceSpec, nil, runOf("a", "until-1", 1, 5, 10, accepted), runOf("b", "until-2", 2, 12, 15, accepted)))
	kept(t, find, only(onceSpec, nil, runOf("a", "never-1", 1, 5, 10, accepted), runOf("b", "never-2", 2, 12, 15, refused)))

	text := broken(t, find, onceOnly, only(onceSpec, nil,
		runOf("a", "until-1", 1, 5, 10, accepted), runOf("b", "until-1", 2, 12, 15, accepted)))
	require.Contains(t, text, "key until-1 has succeeded 2 times")
	text = broken(t, find, onceOnly, only(onceSpec, nil,
		runOf("a", "until-1", 1, 5, 10, accepted), runOf("b", "until-1", 2, 12, 15, refused)))
	require.Contains(t, text, "has begun again after its success")
	text = broken(t, find, onceOnly, only(onceSpec, nil,
		runOf("a", "never-1", 1, 5, 10, unknown), runOf("b", "never-1", 2, 12, 15, refused)))
	require.Contains(t, text, "has begun 2 times, and must never again")

	// A process that was stopped begins late. Nothing can stop it but a key that never begins again.
	stopped := []faultRecord{{Clients: []string{"client1"}, Start: at(4), End: at(13)}}
	late := runOf("b", "until-1", 2, 12, 15, unknown)
	late[2].Kind, late[2].LastValid = lost, at(11)
	kept(t, find, only(onceSpec, stopped, runOf("a", "until-1", 1, 5, 10, accepted), late))
}

func TestWorkloadLeaderRunsAtOneTime(t *testing.T) {
	t.Parallel()
	page := breaches(t, only(onceSpec, nil,
		runOf("a", "until-1", 1, 5, 10, refused), runOf("b", "until-1", 2, 9, 15, unknown)), onceOnly)
	require.Contains(t, page, "twice_run=1")
	require.Contains(t, page, "overlaps=0")
}

func TestWorkloadLeaderMarkersThatTheServersHave(t *testing.T) {
	t.Parallel()
	find := func(r *roundReport) []violation { return wrongMarkers(r, onceSpec) }
	for name, c := range map[string]struct {
		key    string
		marked outcome
		tokens []int // of the markers in the log
		want   string
	}{
		"marked":                  {"until-1", accepted, []int{1}, ""},
		"in doubt":                {"until-1", unknown, nil, ""},
		"failed":                  {"until-1", refused, nil, ""},
		"never again, and failed": {"never-1", refused, []int{1}, ""},
		"not marked":              {"until-1", accepted, nil, "has succeeded, and its marker is not of this run (0 markers in the log)"},
		"marked by another":       {"until-1", accepted, []int{2}, "has succeeded, and its marker is not of this run"},
		"marked twice":            {"until-1", accepted, []int{1, 1}, "(2 markers in the log)"},
		"begun without a marker":  {"never-1", unknown, nil, "has begun, and its marker is not of this run"},
		"failed and marked":       {"until-1", refused, []int{1}, "has failed, and is marked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := only(onceSpec, nil, runOf("a", c.key, 1, 5, 10, c.marked))
			p.commit(txnCreate2, 'a', 1, 1, node("once-s#"+c.key, "lock-", 1))
			for i, token := range c.tokens {
				p.mark(c.key, int64(i)+5, 8, token)
			}
			if c.want == "" {
				kept(t, find, p)
				return
			}
			require.Contains(t, broken(t, find, onceOnly, p), c.want)
		})
	}
	// A marker that was cut off the log of one server was lost by the servers.
	p := only(onceSpec, nil, runOf("a", "until-1", 1, 5, 10, accepted))
	p.mark("until-1", 5, 8, 1)
	p.alone, p.committed = p.committed, nil
	p.commit(txnCreate2, 'a', 1, 1, node("once-s#until-1", "lock-", 1))
	kept(t, find, p)
}

// A campaign in which a recipe was hardly used proves nothing.
func TestWorkloadLeaderFloorsOfARecipe(t *testing.T) {
	t.Parallel()
	happened := newTotals()
	happened.add(only(leaderSpec, nil, take("a", "leader-s", 1, 5, 10)).load(t))
	require.Contains(t, happened.work(90*time.Second), floor{"uses of leader", 60, 1})
	require.NotContains(t, happened.work(90*time.Second), floor{"uses of once", 60, 0}, "it was not played")
}

// The last run of a worker's own key must succeed, unless the session ends in it.
func TestWorkloadLeaderLastRunFails(t *testing.T) {
	t.Parallel()
	const noAuth = -102
	for name, c := range map[string]struct {
		fault zkserver.Fault
		kills bool
		stuck []string
	}{
		"it succeeds":        {zkserver.Pass, false, nil},
		"the session ends":   {zkserver.LoseRequest, true, nil},
		"it is not accepted": {zkserver.FailWith(noAuth), false, []string{"once-s#until-c1.1-once-s.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.NewServer(t)
			w, history := newTestWorker(t, server, onceSpec)
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op != zkserver.OpMulti { // all but what marks the key as done
					return zkserver.Pass
				}
				if c.kills {
					go server.KillSession(r.SessionID)
				}
				return c.fault
			})
			turn, err := prepareOnce(w)
			require.NoError(t, err)
			w.last = true

			turn(t.Context())

			require.Equal(t, c.stuck, w.client.stuck)
			events, err := readEvents(history)
			require.NoError(t, err)
			require.Len(t, slices.DeleteFunc(events, func(e event) bool { return e.Kind != ran }), 1)
		})
	}
}
