// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// A recipe that is no lock brings folders, promises and a measure of what was done.
func TestWorkloadRecipeThatIsNoLock(t *testing.T) {
	const promised promise = "missed_changes"
	locksOnly := workloads
	t.Cleanup(func() { workloads = locksOnly })
	workloads = append(slices.Clone(locksOnly), workload{
		name: "sundial", workers: 1,
		folders:  func(s lockSpec) []string { return []string{s.path() + "/a", s.path() + "/b"} },
		promises: []promise{promised},
		find: func(r *roundReport, s lockSpec) []violation {
			return []violation{{promise: promised, count: 2, round: r, what: s.Name + " has missed two"}}
		},
		done: func(*roundReport, lockSpec) int { return 17 },
	})
	p := goodPlan()
	spec := lockSpec{Name: "sundial-s", Workload: "sundial"}
	p.round().Locks = append(p.round().Locks, spec)
	p.add("a", take("a", "sundial-s", 40, 50, 60)...) // no model judges its history
	require.Equal(t, []string{"/nemesis/locks/sundial-s/a", "/nemesis/locks/sundial-s/b"}, spec.folders())
	require.Equal(t, []string{"sundial-s"}, spec.protects())

	var page strings.Builder
	require.ErrorContains(t, judge(&page, p.save(t)), "missed_changes is 2, must be 0")
	require.Contains(t, page.String(), "sundial-s has missed two")
	require.Contains(t, lastLine(page.String()), "stuck=0 missed_changes=2")
	happened := newTotals()
	happened.add(p.load(t))
	require.Equal(t, 17+1, happened.perLock["sundial-s"])
}

// newTestWorker returns a worker at a recipe of a server, and what it writes down.
func newTestWorker(t *testing.T, server *zkserver.Server, spec lockSpec) (w *worker, history string) {
	t.Helper()
	history = filepath.Join(t.TempDir(), "c1.1.jsonl")
	h, err := createHistory(history, "c1.1")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.close()) })
	c := &client{
		cfg: clientConfig{Name: "c1.1"}, framework: zktest.Client(t, server), history: h, ctx: t.Context(), stopping: make(chan struct{}),
	}
	w = &worker{client: c, spec: spec, kind: workloadOf(spec), name: "c1.1/" + spec.Name + ".0", random: rand.New(rand.NewPCG(1, 2))}
	return w, history
}
