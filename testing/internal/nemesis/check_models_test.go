// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/checker"
)

// search checks a plan against the models.
func search(t *testing.T, p *plan) ([]violation, string) {
	t.Helper()
	r := p.load(t)
	found := must.Get(models(r))(t)
	return found, r.folder
}

func TestCheckModels(t *testing.T) {
	t.Parallel()
	found, _ := search(t, goodPlan())
	require.Empty(t, found)

	found, folder := search(t, only(mutexSpec, nil, take("a", "mutex-s", 1, 5, 12), take("b", "mutex-s", 2, 11, 15)))
	require.Len(t, found, 1)
	require.Equal(t, legal, found[0].promise)
	require.Contains(t, found[0].String(), "mutex-s: not what a mutex can have gone through")
	require.Contains(t, string(must.Get(os.ReadFile(filepath.Join(folder, "mutex-s.0.html")))(t)), "b/mutex-s/2#0 acquire token 2")

	breach := &checker.ViolationError{Model: checker.Mutex(), Lock: "mutex-s", Undecided: true}
	long := against(&roundReport{}, []*hold{{acquired: at(5)}}, "page.html", breach)
	require.Equal(t, decided, long.promise)
	require.Contains(t, long.what, "mutex-s: 2 operations of a mutex took too long to check, see page.html")

	outer := take("a", "reentrant-s", 1, 5, 30)
	found, _ = search(t, only(reentrantSpec, nil, outer, change(take("a", "reentrant-s", 2, 8, 10), ownedBy(outer[1].Owner, 1))))
	require.Empty(t, found)
	found, _ = search(t, only(semaphoreSpec, nil,
		take("a", "semaphore-s", 1, 5, 30), take("b", "semaphore-s", 2, 8, 20), take("c", "semaphore-s", 3, 9, 10)))
	require.Len(t, found, 1)
	require.Contains(t, found[0].what, "semaphore of 2")
}

// A hold that was entered once more after its session had been closed by somebody else is over, even if its
// holder has not been told yet.
func TestCheckModelsAndAReentryAfterTheEnd(t *testing.T) {
	t.Parallel()
	fault := faultRecord{Fault: "N13", Sessions: []int64{'a'}, Start: at(10), End: at(11)}
	outer := take("a", "reentrant-s", 1, 5, 20)
	again := change(take("a", "reentrant-s", 2, 15, 16), ownedBy(outer[1].Owner, 1))
	again[1].Node = outer[1].Node
	found, _ := search(t, only(reentrantSpec, []faultRecord{fault}, outer, again, take("b", "reentrant-s", 3, 12, 18)))
	require.Empty(t, found)
	found, _ = search(t, only(reentrantSpec, nil, outer, again, take("b", "reentrant-s", 3, 12, 18)))
	require.Len(t, found, 1)
}

// A history of any length is checked, and what is wrong at a seam is found.
func TestCheckModelsInParts(t *testing.T) {
	t.Parallel()
	const turns = partSize + 10
	events := make([]event, 0, 4*turns)
	for n := range int64(turns) {
		events = append(events, take("a", "mutex-s", int(n)+1, 10*n+5, 10*n+8)...)
	}
	found, _ := search(t, only(mutexSpec, nil, events))
	require.Empty(t, found)
	const seam = int64(partSize - 1)
	fall := take("b", "mutex-s", int(seam)-1, 10*seam+9, 10*seam+10) // with a token from before
	found, _ = search(t, only(mutexSpec, nil, events, fall))
	require.Len(t, found, 1)

	all := make([]*hold, 2*partSize)
	for i := range all {
		all[i] = &hold{acquired: int64(i)}
	}
	cut := parts(all)
	require.Len(t, cut, 3)
	for i, part := range cut[1:] {
		require.Equal(t, part[0], cut[i][partSize-partOverlap])
	}
	require.Equal(t, all[len(all)-1], cut[2][len(cut[2])-1])
}
