// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocurator/curator/recipes/internal/attempt"
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
	r := p.piece.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.piece.holds {
		p.piece.load = max(1, load)
		attempt.Signal(r.reports)
	}
	return nil
}

// writeReports writes into this member's znode the loads of its partitions, as rarely as LoadPeriod says, and for
// which it is a warm standby.
func (r *run) writeReports() {
	written := r.newRegistration().encode()
	for {
		pause := LoadPeriod
		select {
		case <-r.reports:
		case <-r.prepared:
			if pause = preparedPeriod; r.isDraining() {
				pause = 0
			}
		case <-r.ctx.Done():
			return
		}
		select {
		case <-time.After(pause):
		case <-r.prepared:
		case <-r.ctx.Done():
			return
		}
		g := r.registration()
		data := g.encode()
		if bytes.Equal(data, written) {
			continue
		}
		if err := r.node.SetData(r.ctx, data); err != nil {
			if r.ctx.Err() == nil {
				r.client.Logger().Warn("the loads of partitions could not be reported", logPath, r.node.Path(), "error", err)
			}
			attempt.Signal(r.reports) // try again, as the function may report no more
			continue
		}
		written = data
		r.mu.Lock()
		first := !r.loaded && len(g.Loads) > 0
		r.loaded, r.announced = r.loaded || first, g.Drained
		r.mu.Unlock()
		if first || g.Drained { // perhaps no head looks at loads yet, or at this member
			attempt.Signal(r.wake)
		}
	}
}

// registration returns what this member's znode says. If there is not enough room, the loads are missing
// that are smallest, and partitions for which it is prepared.
func (r *run) registration() registration {
	g := r.newRegistration()
	g.Loads = make(map[string]int)
	r.mu.Lock()
	g.Drained = r.drained != nil
	for name, p := range r.pieces {
		if p.load > 0 {
			g.Loads[name] = p.load
		}
		if p.standby && p.warm.isReady() {
			g.Prepared = append(g.Prepared, name)
		}
	}
	r.mu.Unlock()
	slices.Sort(g.Prepared)
	room := r.client.MaxRequestSize() / 4
	for i, name := range g.Prepared {
		if room -= len(name) + len(`"",`); room < 0 {
			g.Prepared = g.Prepared[:i]
			break
		}
	}
	room = r.client.MaxRequestSize() / 2
	for _, name := range slices.SortedFunc(maps.Keys(g.Loads), func(a, b string) int {
		return cmp.Or(cmp.Compare(g.Loads[b], g.Loads[a]), cmp.Compare(a, b))
	}) {
		if room -= len(name) + len(`"":1000000,`); room < 0 {
			delete(g.Loads, name)
		}
	}
	return g
}

// followLoads has the head look at the loads, if there are any.
func (r *run) followLoads() {
	switch {
	case r.share == nil || !r.share.Weighs:
		r.weigh = time.Time{}
	case r.weigh.IsZero():
		r.weigh = time.Now().Add(LoadPeriod)
	}
}

// plansAgain reports whether a plan that is balanced is made again: for the loads, to drain this member, or because it
// does not have the set of this member.
func (r *run) plansAgain(plan *root) bool {
	mustDrain := r.mustDrain()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.weighs || !slices.Contains(plan.Sets, r.names.id()) || r.loaded && !plan.Weighs || mustDrain
}

func (r *run) isDraining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drained != nil
}

// mustDrain reports whether the plan has something for this member, although it is drained.
func (r *run) mustDrain() bool {
	return r.isDraining() && r.share != nil && len(r.share.Partitions)+len(r.share.Standbys) > 0
}
