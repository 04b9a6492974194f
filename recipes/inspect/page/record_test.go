// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
	"github.com/gocurator/curator/recipes/locks"
)

// lockOf is a lock with a holder and a waiter, as a walk reads it.
func lockOf(i int) *inspect.Recipe {
	r := &inspect.Recipe{Path: fmt.Sprintf("/locks/orders/%06d", i), Kind: inspect.Mutex, Holders: 1, Waiters: 1}
	for k := range 2 {
		path := fmt.Sprintf("%s/_c_%08x-5bf2-4c4b-8f0e-3c9a5d1f7b2%d-lock-%010d", r.Path, i, k, k)
		data := fmt.Appendf(nil, "worker-%d.internal.example/%d nightly %d", i%40, 1000+i, i)
		p := locks.ParticipantOf(path, "lock-", data, framework.Stat{Czxid: int64(1)<<40 + int64(i), EphemeralOwner: -int64(i%4000) - 1, Ctime: 1_700_000_000_000 + int64(i)})
		p.Position, p.Holds = k, k == 0
		if k == 1 {
			p.WaitsFor = []string{r.Participants[0].Path}
		}
		r.Participants = append(r.Participants, p)
	}
	return r
}

// TestRecordHasAllOfARecipe that is shown.
func TestRecordHasAllOfARecipe(t *testing.T) {
	hidden := lockOf(2)
	hidden.Participants[1] = locks.Participant{Path: hidden.Participants[1].Path, LockName: "lock-", Sequence: 1, Position: 1}
	hidden.Foreign = []string{"README", ""}
	semaphore := &inspect.Recipe{Path: "/", Kind: inspect.KazooSemaphore, Holders: 3, Items: 1 << 40, MaxLeases: 7}
	odd := lockOf(4)
	odd.Participants[0].Identity = "\xff\x00\n"
	odd.Participants[0].Host, odd.Participants[0].PID, odd.Participants[0].Label = "", 0, ""
	var buffer []byte
	var into inspect.Recipe
	for _, r := range []*inspect.Recipe{lockOf(1), hidden, semaphore, odd, lockOf(3)} {
		one := rowOf(r, &buffer, nil)
		one.unpack(&into) // over what was there
		require.Len(t, into.Participants, len(r.Participants))
		got := one.recipe()
		require.Equal(t, *r, got)
	}
	long := lockOf(5)
	long.Participants[0].Identity = strings.Repeat("x", 900)
	long.Foreign = make([]string, 100)
	for range 2 * maxParticipants {
		long.Participants = append(long.Participants, long.Participants[1])
	}
	one := rowOf(long, &buffer, nil)
	got := one.recipe()
	require.Len(t, got.Participants, maxParticipants)
	require.Len(t, got.Foreign, maxForeign)
	require.Equal(t, cut(long.Participants[0].Identity), got.Participants[0].Identity)
	require.Equal(t, long.Participants[1], got.Participants[maxParticipants-1])
	for i := range long.Participants {
		long.Participants[i].Identity = strings.Repeat("x", maxText)
	}
	one = rowOf(long, &buffer, nil)
	require.Less(t, len(one.packed), maxPacked+10_000)
	require.Greater(t, len(one.recipe().Participants), maxParticipants/4, "as many as there is room for")
}

// TestPictureOf100000LocksIs45MB, and the next one shares what has not changed. The figures are of each lock.
func TestPictureOf100000LocksIs45MB(t *testing.T) {
	const n, first, next = 20_000, 450, 110
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc) //nolint:gosec // it is no such number
	}
	paint := func(last *picture) *picture {
		painter := newPainter(last, listLimit)
		for i := range n {
			painter.add(lockOf(i))
		}
		return painter.done()
	}
	before := inUse()
	one := paint(nil)
	alone := inUse() - before
	other := paint(one)
	both := inUse() - before
	require.Equal(t, []int{n, n, n}, []int{other.total, other.held, other.contended})
	require.Len(t, other.rows, n)
	require.Equal(t, one.rows, other.rows)
	t.Logf("%d bytes for each lock, and %d more for the next picture", alone/n, (both-alone)/n)
	require.Less(t, alone/n, int64(first))
	require.Less(t, (both-alone)/n, int64(next))
}

// TestPictureHasALimit: what is beyond it counts, and is not kept.
func TestPictureHasALimit(t *testing.T) {
	painter := newPainter(nil, 100_000)
	for i := range 1000 {
		painter.add(lockOf(i))
	}
	p := painter.done()
	require.True(t, p.isFull)
	require.Equal(t, 1000, p.total)
	require.Less(t, len(p.rows), 500)
	require.Greater(t, len(p.rows), 200)
	require.Len(t, choice{Sort: "path", Page: 3}.of(p).Rows, min(pageSize, len(p.rows)-2*pageSize))
	require.Equal(t, time.UnixMilli(1_700_000_000_000), choice{Sort: "held", Page: 1}.of(p).Rows[0].Holder.Since)
}
