// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/nodes"
)

// ReportLoad says how much work the partition makes, in any unit that all members use: items a minute,
// bytes, milliseconds. The group then divides loads instead of numbers of partitions. The load of the
// busiest member stays within a tenth of its part, as far as whole partitions allow, and smaller changes
// move nothing. A partition without a load counts as the mean of the others. For ten minutes after a move a partition
// counts with the load that it had before, because the move itself makes work.
//
// ReportLoad sends nothing and does not block. The member writes what has changed, all its partitions in
// one request, once in [LoadPeriod]. When the partition goes to another member, its load is still known, to a
// factor of two if its member has died. ReportLoad fails only if load is not 0 to [MaxLoad].
func (p Partition) ReportLoad(load int) error {
	if load < 0 || load > MaxLoad {
		return fmt.Errorf("partition: load %d of partition %q, expected 0 to %d", load, p.Name, MaxLoad)
	}
	if p.piece == nil {
		return nil // made by a test of the function
	}
	all := p.piece.of
	all.mu.Lock()
	defer all.mu.Unlock()
	if p.piece.holds {
		p.piece.load = max(1, load)
		attempt.Signal(all.reported)
	}
	return nil
}

// preparedPeriod is for how long a member collects the partitions for which it is prepared before it writes.
const preparedPeriod = time.Second

// reporter writes into the znode of a member what the group must know of it: the loads of its partitions, as rarely as
// LoadPeriod says, for which it is a warm standby, and that it is drained.
type reporter struct {
	of       *holdings
	node     *nodes.PersistentNode
	told     chan struct{} // has room for one: the group must plan for what was written
	hasLoads atomic.Bool   // the znode has loads, or had some
}

func (w *reporter) run() {
	written := w.of.newRegistration().encode()
	for w.await() {
		g := w.registration()
		data := g.encode()
		if bytes.Equal(data, written) {
			continue
		}
		if err := w.node.SetData(w.of.ctx, data); err != nil {
			if w.of.ctx.Err() == nil {
				w.of.client.Logger().Warn("the loads of partitions could not be reported", logPath, w.node.Path(), "error", err)
			}
			attempt.Signal(w.of.reported) // try again, as the function may report no more
			continue
		}
		written = data
		w.of.mu.Lock()
		w.of.announced = g.Drained
		w.of.mu.Unlock()
		first := len(g.Loads) > 0 && !w.hasLoads.Swap(true)
		if first || g.Drained { // perhaps no head looks at loads yet, or at this member
			attempt.Signal(w.told)
		}
	}
}

// await waits until there is something to write, and then for more. It reports false when the run has ended.
func (w *reporter) await() bool {
	pause := LoadPeriod
	select {
	case <-w.of.reported:
	case <-w.of.prepared:
		if pause = preparedPeriod; w.of.isDraining() {
			pause = 0
		}
	case <-w.of.ctx.Done():
		return false
	}
	select {
	case <-time.After(pause):
	case <-w.of.prepared:
	case <-w.of.ctx.Done():
		return false
	}
	return true
}

// registration returns what this member's znode says. If there is not enough room, the loads are missing
// that are smallest, and partitions for which it is prepared.
func (w *reporter) registration() registration {
	g := w.of.newRegistration()
	g.Loads = make(map[string]int)
	w.of.mu.Lock()
	g.Drained = w.of.drained != nil
	for name, p := range w.of.pieces {
		if p.load > 0 {
			g.Loads[name] = p.load
		}
		if p.standby && p.warm.isReady() {
			g.Prepared = append(g.Prepared, name)
		}
	}
	w.of.mu.Unlock()
	slices.Sort(g.Prepared)
	room := w.of.client.MaxRequestSize() / 4
	for i, name := range g.Prepared {
		if room -= len(name) + len(`"",`); room < 0 {
			g.Prepared = g.Prepared[:i]
			break
		}
	}
	room = w.of.client.MaxRequestSize() / 2
	for _, name := range slices.SortedFunc(maps.Keys(g.Loads), func(a, b string) int {
		return cmp.Or(cmp.Compare(g.Loads[b], g.Loads[a]), cmp.Compare(a, b))
	}) {
		if room -= len(name) + len(`"":1000000,`); room < 0 {
			delete(g.Loads, name)
		}
	}
	return g
}
