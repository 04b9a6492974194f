// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	discoverySpec = lockSpec{Name: "discovery-s", Workload: "discovery"}
	groupSpec     = lockSpec{Name: "group-s", Workload: "group"}
)

// registered is a registration for a plan: asked for, there, and over at these times. One
// that is over at 0 is over with its process.
func registered(spec lockSpec, name string, asked, there, over int64) []event {
	events := []event{
		{At: at(asked), Kind: joining, Lock: spec.Name, Value: name},
		{At: at(there), Kind: joined, Lock: spec.Name, Value: name},
	}
	if over != 0 {
		events = append(events, event{At: at(over), Kind: gone, Lock: spec.Name, Value: name})
	}
	return events
}

// standing is a registration that stays until all have looked, and what its process saw.
func standing(spec lockSpec, entry, watched, server string) []event {
	return []event{
		{At: at(81), Kind: stands, Lock: spec.Name, Value: entry},
		{At: at(82), Kind: viewed, Lock: spec.Name, Value: watched},
		{At: at(82), Kind: listed, Lock: spec.Name, Value: server},
	}
}

func TestWorkloadDiscoveryPicturesEqualWhatTheLiveProcessesHave(t *testing.T) {
	t.Parallel()
	const a, b, dead = `a="1"`, `b="2"`, `dead="3"`
	both := a + "\n" + b
	for name, c := range map[string]struct {
		watched, server string // of the first process
		want            []string
	}{
		"right":                       {both, both, nil},
		"a watcher that missed one":   {a, both, []string{`missing: round round1 at 0.082000s: discovery-s: the watcher of client0 does not have b="2"`}},
		"a server that misses one":    {both, b, []string{`missing: round round1 at 0.082000s: discovery-s: the server does not have a="1"`}},
		"a watcher with a dead one":   {both + "\n" + dead, both, []string{`ghosts: round round1 at 0.082000s: discovery-s: the watcher of client0 has dead="3"`}},
		"a server with a dead one":    {both, both + "\n" + dead, []string{`ghosts: round round1 at 0.082000s: discovery-s: the server has dead="3"`}},
		"a watcher with nothing":      {"", both, []string{`does not have a="1"`, `does not have b="2"`}},
		"a watcher with an older one": {`a="0"` + "\n" + b, both, []string{`has a="0", which`, `does not have a="1"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := only(discoverySpec, nil, standing(discoverySpec, a, c.watched, c.server), standing(discoverySpec, b, both, both))
			found := wrongRegistrations(p.load(t), discoverySpec)
			require.Len(t, found, len(c.want))
			for i, want := range c.want {
				require.Contains(t, found[i].String(), want)
			}
		})
	}
}

// A registration is at the servers while its process asks for it, and at no other time.
func TestWorkloadDiscoveryRegistrationsThatOutliveTheirProcesses(t *testing.T) {
	t.Parallel()
	killed := []faultRecord{{Clients: []string{"client0"}, Start: at(30), End: at(30), Killed: true}}
	for name, c := range map[string]struct {
		history        []event
		faults         []faultRecord
		created, ended int64 // of the znode; 0 is never
		ghost          bool
	}{
		"while it is asked for":            {history: registered(groupSpec, "c1", 5, 8, 20), created: 6, ended: 19},
		"deleted as the call returns":      {history: registered(groupSpec, "c1", 5, 8, 20), created: 5, ended: 20},
		"after its orderly end":            {history: registered(groupSpec, "c1", 5, 8, 20), created: 6, ended: 25, ghost: true},
		"created after its orderly end":    {history: registered(groupSpec, "c1", 5, 8, 20), created: 23, ended: 25, ghost: true},
		"before it was asked for":          {history: registered(groupSpec, "c1", 5, 8, 20), created: 2, ended: 19, ghost: true},
		"never deleted":                    {history: registered(groupSpec, "c1", 5, 8, 20), created: 6, ghost: true},
		"until its session ends":           {history: registered(groupSpec, "c1", 5, 8, 0), faults: killed, created: 6, ended: 60},
		"a while after the last fault":     {history: registered(groupSpec, "c1", 5, 8, 0), faults: killed, created: 6, ended: 80 + settleTime.Milliseconds()},
		"long after the death of a client": {history: registered(groupSpec, "c1", 5, 8, 0), faults: killed, created: 6, ended: 90 + settleTime.Milliseconds(), ghost: true},
		"of nobody":                        {created: 6, ended: 7, ghost: true},
		"between two registrations": {
			history: append(registered(groupSpec, "c1", 5, 8, 20), registered(groupSpec, "c1", 30, 33, 40)...), created: 6, ended: 35, ghost: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := only(groupSpec, c.faults, append([]event{{At: at(1), Kind: connected, Session: 'a'}}, c.history...),
				append([]event{{At: at(1), Kind: connected, Session: 'b'}}, registered(groupSpec, "c1", 1, 2, 0)...)) // another of the name
			p.commit(txnCreate2, 'a', 1, c.created, groupSpec.path()+"/c1")
			if c.ended != 0 {
				p.commit(txnDelete, 'a', 2, c.ended, groupSpec.path()+"/c1")
			}
			find := func(r *roundReport) []violation { return outlivers(r, groupSpec, groupSpec.path()) }
			if c.ghost {
				require.Contains(t, broken(t, find, noGhost, p), "group-s: /nemesis/locks/group-s/c1 of session 0x61")
				return
			}
			kept(t, find, p)
		})
	}
}

// A session that no client has noted may be of any. What is no instance does not count.
func TestWorkloadDiscoveryRegistrationsOfUnknownSessions(t *testing.T) {
	t.Parallel()
	find := func(r *roundReport) []violation { return outlivers(r, discoverySpec, discoverySpec.service()) }
	p := only(discoverySpec, nil, registered(discoverySpec, "x", 5, 8, 20))
	p.commit(txnCreate2, 'z', 1, 6, discoverySpec.service()+"/x")
	p.commit(txnDelete, 'z', 2, 19, discoverySpec.service()+"/x")
	p.commit(txnCreate2, 'z', 3, 6, discoverySpec.service()+"/x/below")
	p.commit(txnCreate2, 'z', 4, 6, discoverySpec.path()+"/beside")
	kept(t, find, p)
	p.commit(txnCreate2, 'z', 5, 30, discoverySpec.service()+"/x")
	broken(t, find, noGhost, p)
}

// Both recipes are counted under the same names, once each.
func TestWorkloadDiscoveryLineHasGhostsAndMissingOnce(t *testing.T) {
	t.Parallel()
	p := only(discoverySpec, nil, append(registered(discoverySpec, "a", 5, 8, 0), standing(discoverySpec, `a="1"`, "", `a="1"`)...))
	p.add("client0", registered(groupSpec, "c", 5, 8, 0)...)
	p.add("client0", standing(groupSpec, `c="1"`, `c="1"`+"\n"+`d="2"`, `c="1"`)...)
	p.round().Locks = append(p.round().Locks, groupSpec)
	var page bytes.Buffer
	require.ErrorContains(t, judge(&page, p.save(t)), "ghosts is 1, must be 0; missing is 1, must be 0")
	line := lastLine(page.String())
	require.True(t, strings.HasSuffix(line, " stuck=0 ghosts=1 missing=1"), line)

	happened := newTotals()
	happened.add(p.load(t))
	require.Contains(t, happened.work(90*time.Second), floor{"uses of discovery", 60, 1})
	require.Contains(t, happened.work(90*time.Second), floor{"uses of group", 60, 1})
}

func TestWorkloadDiscoveryEntriesOfAPicture(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{`a="two\nlines"`, `b="\x00"`}, roster{"b": "\x00", "a": "two\nlines"}.entries())
	require.Equal(t, []string{`c10="1"`, `c1="2"`}, roster{"c1": "2", "c10": "1"}.entries(), "as words are sorted")
	require.Empty(t, roster(nil).entries())
}
