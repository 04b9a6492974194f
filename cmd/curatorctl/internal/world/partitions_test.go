// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/testing/zksim"
)

var partitions = []string{"a", "b", "c"}

// group is who has which partition.
type group struct {
	owners map[string][]int
	hangs  string        // the partition whose function does not end with its context
	mended chan struct{} // closed when it ends; nil while all do
}

// partitions prepares a member of a group. Its functions take a lock, and count.
func (m *member) partitions() error {
	names := partition.Fixed(partitions...)
	if m.o.is("set", "stored") {
		names = partition.Stored("/set")
		_, err := m.client.Create(context.Background(), "/set", []byte(strings.Join(partitions, "\n")), framework.Idempotent())
		if err != nil && !errors.Is(err, framework.ErrNodeExists) {
			return err
		}
	}
	opts := []partition.Option{partition.WithID(peer(m.c.Index))}
	if m.o.is("settle", "0s") {
		opts = append(opts, partition.WithSettle(0))
	}
	if m.o.is("return", "5s") {
		opts = append(opts, partition.WithReturn(5*time.Second))
	}
	if m.o.is("moves", "1") {
		opts = append(opts, partition.WithMoves(1, 2*time.Second))
	}
	if m.o.is("capacity", "2") {
		opts = append(opts, partition.WithCapacity(1+m.c.Index%2))
	}
	if m.o.is("grace", "1s") {
		opts = append(opts, partition.WithGrace(time.Second))
	}
	if m.o.is("functions fail", "and end") {
		opts = append(opts, partition.WithEndOnError())
	}
	if m.o.is("locks", "elsewhere") {
		opts = append(opts, partition.WithLocks("/held", "lock"))
	}
	if m.o.is("standbys", "1") {
		opts = append(opts, partition.WithStandbys(1, func(context.Context, string) error { return nil }))
	}
	if m.o.is("zones", "2") {
		opts = append(opts, partition.WithZone(zone(peer(m.c.Index))))
	}
	if m.o.is("policy", "quorum") {
		opts = append(opts, partition.WithLockOptions(locks.WithErrorPolicy(framework.QuorumErrorPolicy)))
	}
	group, err := partition.New(m.client, "/group", names, opts...)
	if err != nil {
		return err
	}
	phases := make(map[string]partition.Phase)
	group.OnChange(func(c partition.Change) {
		m.judgePhase(phases[c.Partition], c)
		phases[c.Partition] = c.Phase
	})
	m.serve = append(m.serve, func(ctx context.Context) {
		for ctx.Err() == nil {
			err := group.Run(ctx, m.work)
			m.logf("the group: %v", err)
			if !errors.Is(err, errFails) {
				return
			}
			sleep(ctx, time.Second)
		}
	})
	m.acts["partitions"] = m.order
	return nil
}

// judgePhase finds a phase of a partition at its member that cannot follow on another one.
func (m *member) judgePhase(before partition.Phase, c partition.Change) {
	var after []partition.Phase
	switch c.Phase {
	case partition.Waiting:
		after = []partition.Phase{"", partition.Waiting, partition.Ended}
	case partition.Held:
		after = []partition.Phase{partition.Waiting}
	case partition.Failed, partition.Ending:
		after = []partition.Phase{partition.Held, partition.Failed}
	case partition.Overdue:
		after = []partition.Phase{partition.Ending}
	case partition.Ended:
		after = []partition.Phase{partition.Ending, partition.Overdue}
		m.all.chance(rulePhases)
	}
	if !slices.Contains(after, before) {
		m.findf("partition %s is %q after %q: %v", c.Partition, c.Phase, before, c.Err)
	}
}

func peer(index int) string { return fmt.Sprintf("member-%d", index) }

// zone is where a member is: the last one is alone.
func zone(peer string) string {
	if peer == "member-2" {
		return "west"
	}
	return "east"
}

var errFails = errors.New("it fails")

// work is the function of a partition.
func (m *member) work(ctx context.Context, p partition.Partition) error {
	token := p.Lease.Token()
	if !m.o.is("functions fail", "") { // a function that is called again has the same lease
		token = 0
	}
	leave := m.entered("partition", zksim.Hold{
		Key: "partition " + p.Name, Client: m.c.Index, Exclusive: true, Token: token, IsOver: m.isOver(p.Lease),
	})
	defer leave()
	m.owns(p.Name, true)
	defer m.owns(p.Name, false)
	random := rand.New(rand.NewPCG(uint64(p.Lease.Token()), 1))
	if m.o.is("loads", "reported") {
		if err := p.ReportLoad(random.IntN(100)); err != nil {
			m.findf("load: %v", err)
		}
	}
	sleep(ctx, upTo(random, 2*time.Second))
	m.hold(ctx, random, "/mutex", true, m.mutex, upTo(random, 500*time.Millisecond), nil)
	m.all.Lock()
	fails := !m.all.calm && !m.o.is("functions fail", "")
	m.all.Unlock()
	if fails && random.IntN(3) == 0 && ctx.Err() == nil {
		return errFails
	}
	<-ctx.Done()
	m.all.Lock()
	g := &m.all.group
	mended, hangs := g.mended, g.mended != nil && g.hangs == ""
	if hangs {
		g.hangs = p.Name
	}
	m.all.Unlock()
	if hangs {
		<-mended
	}
	return nil
}

func (m *member) owns(name string, is bool) {
	m.all.Lock()
	defer m.all.Unlock()
	g := &m.all.group
	if g.owners == nil {
		g.owners = make(map[string][]int)
	}
	if is {
		g.owners[name] = append(g.owners[name], m.c.Index)
		return
	}
	i := slices.Index(g.owners[name], m.c.Index)
	g.owners[name] = slices.Delete(g.owners[name], i, i+1)
}

// order is what an operator does.
func (m *member) order(ctx context.Context, random *rand.Rand) {
	name, on := partitions[random.IntN(len(partitions))], random.IntN(2) == 0
	peer := peer(random.IntN(3))
	switch n := random.IntN(7); {
	case n == 0:
		m.logf("excludes %s (%t): %v", name, on, partition.Exclude(ctx, m.client, "/group", name, on))
	case n == 1:
		m.logf("pins %s to %s: %v", name, peer, partition.Pin(ctx, m.client, "/group", name, peer))
	case n == 2:
		m.logf("drains %s (%t): %v", peer, on, partition.Drain(ctx, m.client, "/group", peer, on))
	case !m.o.is("set", "stored"):
	case n == 3:
		m.logf("spoils the set: %v", m.writeSet(ctx, "/set", "a\tb\tc"))
	case n == 4:
		m.logf("shrinks the set: %v", m.writeSet(ctx, "/set", partitions[1:]...))
	default:
		m.logf("mends the set: %v", m.writeSet(ctx, "/set", partitions...))
	}
}

func (m *member) writeSet(ctx context.Context, path string, names ...string) error {
	return m.client.Set(ctx, path, []byte(strings.Join(names, "\n")), framework.WithVersion(framework.AnyVersion))
}

// calm is how long a group may take to do what it was told. Sessions and partitions of a member that was killed are gone by then.
// Loads are reported every 30 s, and the judge must not look in the moment in which partitions move for that.
const calm = 15*time.Second + 100*time.Millisecond

// settlePartitions finds partitions that no member has, and orders that are not heeded.
func (all *truth) settlePartitions(ctx context.Context, w *zksim.World, m *member) {
	must := func(what string, err error) {
		if err != nil {
			w.Findf("%s: %v", what, err)
		}
	}
	stored := m.o.is("set", "stored")
	if stored {
		must("mend", m.writeSet(ctx, "/set", partitions...))
	}
	for i, name := range partitions {
		must("include", partition.Exclude(ctx, m.client, "/group", name, false))
		must("unpin", partition.Pin(ctx, m.client, "/group", name, ""))
		must("undrain", partition.Drain(ctx, m.client, "/group", peer(i), false))
	}
	time.Sleep(calm)
	all.expect(ruleOwned, "each", partitions)
	all.judgeRead(ctx, m)
	all.judgeStandbys(ctx, m)
	random := rand.New(rand.NewPCG(uint64(w.Elapsed()), 5))
	name := partitions[random.IntN(len(partitions))]
	others := slices.DeleteFunc(slices.Clone(partitions), func(other string) bool { return other == name })
	switch n := random.IntN(5); {
	case n == 0:
		if stored && random.IntN(4) > 0 { // to exclude needs no set
			must("spoil", m.writeSet(ctx, "/set", "a\tb\tc"))
			time.Sleep(calm / 3)
			all.chance(ruleExcludedUnread)
		}
		must("exclude", partition.Exclude(ctx, m.client, "/group", name, true))
		time.Sleep(calm)
		all.expect(ruleExcluded, "all but "+name+", which is excluded", others)
	case n == 1 && stored:
		must("shrink", m.writeSet(ctx, "/set", others...))
		time.Sleep(calm)
		all.expect(ruleShrunk, "all but "+name+", which is in the set no more", others)
	case n == 2:
		to := all.sorted()[random.IntN(len(all.members))].c.Index
		must("pin", partition.Pin(ctx, m.client, "/group", name, peer(to)))
		time.Sleep(calm)
		if all.expect(rulePinned, "each", partitions); !slices.Equal(all.ownersOf(name), []int{to}) {
			w.Findf("partition %s is at %v, and was pinned to %d", name, all.ownersOf(name), to)
		}
	case len(all.members) > 1:
		all.drainOne(ctx, m, must)
	}
}

// drainOne gives all partitions to one member and drains it. The first function that must end does not. The member must give the other
// partitions up.
func (all *truth) drainOne(ctx context.Context, m *member, must func(string, error)) {
	drained := all.sorted()[0].c.Index
	for _, name := range partitions {
		must("pin", partition.Pin(ctx, m.client, "/group", name, peer(drained)))
	}
	time.Sleep(calm)
	mended := make(chan struct{})
	defer close(mended)
	all.Lock()
	all.group.mended = mended
	all.Unlock()
	must("drain", partition.Drain(ctx, m.client, "/group", peer(drained), true))
	time.Sleep(2 * calm) // it is waited for the function, and then one partition moves after the other
	all.Lock()
	hangs := all.group.hangs
	all.Unlock()
	for _, name := range partitions {
		if name != hangs && slices.Contains(all.ownersOf(name), drained) {
			m.w.Findf("partition %s is still at %d, which was drained", name, drained)
		}
	}
	all.chance(ruleDrained)
}

func (all *truth) ownersOf(name string) []int {
	all.Lock()
	defer all.Unlock()
	return slices.Clone(all.group.owners[name])
}

// expect finds one of these partitions that is not at one member, and another one that is at a member.
func (all *truth) expect(rule, which string, names []string) {
	all.chance(rule)
	for _, name := range partitions {
		owners, want := all.ownersOf(name), 0
		if slices.Contains(names, name) {
			want = 1
		}
		if len(owners) != want {
			all.w.Findf("members %v have partition %s, expected %s at one", owners, name, which)
		}
	}
}

// judgeRead finds a partition that is said to be at another member.
func (all *truth) judgeRead(ctx context.Context, m *member) {
	all.chance(ruleRead)
	now, err := partition.Read(ctx, m.client, "/group")
	if err != nil || len(now.Partitions) != len(partitions) || !now.Balanced {
		m.findf("read the group: %+v, %v", now, err)
	}
	for _, p := range now.Partitions {
		if owners := all.ownersOf(p.Name); len(owners) == 1 && (p.Holder != peer(owners[0]) || p.Owner != p.Holder) {
			m.findf("partition %s is at %v, and is said to be at %s, and to be of %s", p.Name, owners, p.Holder, p.Owner)
		}
	}
}

// judgeStandbys finds a partition without its standby, or with one in the zone of its owner.
func (all *truth) judgeStandbys(ctx context.Context, m *member) {
	if !m.o.is("standbys", "1") || len(all.members) < 3 {
		return
	}
	all.chance(ruleStandbys)
	now, err := partition.Read(ctx, m.client, "/group")
	if err != nil {
		m.findf("read the group: %v", err)
	}
	for _, p := range now.Partitions {
		if len(p.Prepared) != 1 || m.o.is("zones", "2") && zone(p.Prepared[0]) == zone(p.Holder) {
			m.findf("partition %s of %s has the standbys %v, which are prepared: %v", p.Name, p.Holder, p.Standbys, p.Prepared)
		}
	}
}
