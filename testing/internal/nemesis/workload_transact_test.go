// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

// The workload itself, on a server that is in no trouble: each item has a result or is a dead letter.
func TestTransactWorkload(t *testing.T) {
	t.Parallel()
	server := zktest.NewServer(t)
	spec := lockSpec{Name: "transact-s", Workload: "transact"}
	w, history := newTestWorker(t, server, spec)
	turn, err := prepareTransact(w)
	require.NoError(t, err)
	for range 10 {
		turn(t.Context())
	}
	w.last = true
	turn(t.Context())
	children := func(folder string) int {
		names, err := w.client.framework.ChildrenData(t.Context(), spec.path()+"/"+folder, nil)
		if err != nil {
			return 0
		}
		n := 0
		for _, child := range names {
			n += len(itemsIn(string(child.Data)))
		}
		return n
	}
	require.Zero(t, children(lockedItems))
	require.Equal(t, times(t, history, offered), children(itemResults)+children(deadItems))
	require.NotZero(t, children(itemResults))
}

func TestWrongResults(t *testing.T) {
	t.Parallel()
	spec := lockSpec{Name: "transact-s", Workload: "transact"}
	folder := func(name string, n int64) string { return fmt.Sprintf("%s/%s/queue-%010d", spec.path(), name, n) }
	const item = "item:a/1;"
	for name, c := range map[string]struct {
		play   func(*plan)
		broken promise
		what   string
	}{
		"one result":    {play: func(p *plan) { p.createNode("b", 21, 5, folder(itemResults, 1), item) }},
		"a dead letter": {play: func(p *plan) { p.createNode("b", 21, 5, folder(deadItems, 1), item) }},
		"two results": {func(p *plan) {
			p.createNode("b", 21, 5, folder(itemResults, 1), item)
			p.createNode("c", 22, 5, folder(itemResults, 2), item)
		}, noDoubleResult, "2 results and 0 dead letters"},
		"a result and a dead letter": {func(p *plan) {
			p.createNode("b", 21, 5, folder(itemResults, 1), item)
			p.createNode("c", 22, 5, folder(deadItems, 1), item)
		}, noDoubleResult, "1 results and 1 dead letters"},
		"none": {func(*plan) {}, noLostResult, "is gone"},
		"a result that few servers have": {play: func(p *plan) {
			p.createNode("b", 21, 5, folder(itemResults, 1), item)
			p.aside()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := valuesPlan(spec)
			p.add("a", event{At: at(5), Kind: offered, Lock: spec.Name, Owner: lockedItems, Value: item, Outcome: accepted})
			p.createNode("a", 20, 5, folder(lockedItems, 1), item)
			c.play(p)
			p.deleteNode("b", 30, folder(lockedItems, 1))
			found := wrongResults(p.load(t), spec)
			if c.broken == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Equal(t, c.broken, found[0].promise)
			require.Contains(t, found[0].what, c.what)
		})
	}
}

// A restore has undone a result that its consumer heard of only later.
func TestAResultThatARestoreHasUndone(t *testing.T) {
	t.Parallel()
	spec := lockSpec{Name: "transact-s", Workload: "transact"}
	const item = "item:a/1;"
	for called, found := range map[int64]int{45: 0, 75: 1} {
		p := valuesPlan(spec)
		p.add("a", event{At: at(5), Kind: offered, Lock: spec.Name, Owner: lockedItems, Value: item, Outcome: accepted})
		p.createNode("a", 20, 5, spec.path()+"/"+lockedItems+"/queue-0000000001", item)
		p.createNode("b", 21, 45, spec.path()+"/"+itemResults+"/result-0000000000", item)
		p.restore(20)
		p.add("b", event{At: at(76), Called: at(called), Kind: consumed, Lock: spec.Name, Owner: lockedItems, Value: item, Outcome: accepted})
		require.Len(t, wrongResults(p.load(t), spec), found, "called at %d", called)
	}
}

// A consumer that was told of a result that is not there.
func TestAResultThatWasAcknowledgedIsThere(t *testing.T) {
	t.Parallel()
	spec := lockSpec{Name: "transact-s", Workload: "transact"}
	const item = "item:a/1;"
	p := valuesPlan(spec)
	p.add("a", event{At: at(5), Kind: offered, Lock: spec.Name, Owner: lockedItems, Value: item, Outcome: accepted})
	p.createNode("a", 20, 5, spec.path()+"/"+lockedItems+"/queue-0000000001", item)
	p.add("b", event{At: at(8), Kind: consumed, Lock: spec.Name, Owner: lockedItems, Value: item, Outcome: accepted})
	found := wrongResults(p.load(t), spec)
	require.Len(t, found, 1)
	require.Equal(t, noLostResult, found[0].promise)
}
