// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestModel runs random programs of joins, leaves, outages, killed sessions, lost replies,
// changes of the set and of the loads. No partition ever has two holders, and its tokens rise. Whenever trouble
// is over, each partition of the set has a holder within the session timeout, the members are
// balanced by number or by load, and then a join or a leave moves one share and nothing else. When all members leave and
// only newcomers stay, each partition has a holder at once, or when the others are no longer awaited. A member
// that returns in time gets its partitions, and nothing moves. A budget of moves is kept, and a member that was
// drained has nothing. When a zone is lost, standbys of other zones get its partitions first. Znodes among the members that are no
// members change nothing. Nothing is left.
func TestModel(t *testing.T) {
	programs, rounds := 5, 3
	if seeds.Long() {
		programs = 40
	}
	random := seeds.New(t)
	for n := range programs {
		seed := random.Uint64()
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, n, rand.New(rand.NewPCG(seed, 0)))
			for range rounds {
				for range 8 {
					m.step()
				}
				m.heal()
				m.moveOneShare()
				m.loseZone()
				m.handOver()
			}
			m.end()
		})
	}
}

// model is the run of one program.
type model struct {
	*world

	random  *rand.Rand
	members map[string]*worker
	next    int
	opts    []partition.Option
	weights map[string]int // of members whose capacity is not 1
	set     []string
	returns time.Duration // of all members
	most    int           // moves at a time, 0 for any number
	settle  time.Duration
	warmth  *warmth // of programs with zones and standbys
}

func newModel(t *testing.T, n int, random *rand.Rand) *model {
	t.Helper()
	m := &model{
		world: newWorld(t, partition.Stored("/set")), random: random, members: make(map[string]*worker), weights: make(map[string]int),
	}
	m.changeSet(false)
	policy := []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy, framework.QuorumErrorPolicy}[random.IntN(3)]
	settle := []time.Duration{0, 100 * time.Millisecond, time.Second}[random.IntN(3)]
	m.settle = settle
	m.opts = []partition.Option{partition.WithLockOptions(locks.WithErrorPolicy(policy)), partition.WithSettle(settle)}
	if n%4 == 0 {
		m.warmth = newWarmth([]time.Duration{0, time.Second}[random.IntN(2)])
	}
	if n%3 == 1 {
		m.changeLoads()
	}
	if n%2 == 1 {
		m.most = 2
		m.opts = append(m.opts, partition.WithMoves(m.most, 0))
	}
	if n%4 == 2 {
		m.returns = 20 * time.Second
		m.opts = append(m.opts, partition.WithReturn(m.returns))
	}
	m.didf("program %d, policy %v, settle %v, loads %v, return %v, %d moves at a time, standbys %v", n, policy, settle, m.loads != nil,
		m.returns, m.most, m.warmth != nil)
	m.joinOne(true)
	return m
}

func (m *model) joinOne(equal bool) string {
	id := fmt.Sprintf("m%02d", (m.next*7)%20)
	m.next++
	if m.members[id] != nil {
		return id
	}
	opts := m.optionsOf(id)
	if !equal && m.random.IntN(4) == 0 {
		m.weights[id] = 2 + m.random.IntN(3)
		opts = append(slices.Clip(opts), partition.WithCapacity(m.weights[id]))
	}
	m.members[id] = m.join(id, opts...)
	return id
}

// optionsOf returns the options of a member of equal capacity. There are three zones.
func (m *model) optionsOf(id string) []partition.Option {
	if m.warmth == nil {
		return m.opts
	}
	return append(slices.Clip(m.opts), m.warmth.of(m.tb, 1, id, zoneOf(id))...)
}

func zoneOf(id string) string { return fmt.Sprintf("zone-%d", id[len(id)-1]%3) }

func (m *model) changeSet(exists bool) {
	m.set = nil
	for i := range 24 {
		if m.random.IntN(3) > 0 {
			m.set = append(m.set, fmt.Sprintf("p%02d", i))
		}
	}
	m.didf("set %v", m.set)
	data := []byte(strings.Join(m.set, "\n"))
	if exists {
		require.NoError(m.tb, m.theirs.Set(m.tb.Context(), "/set", data))
		return
	}
	_, err := m.theirs.Create(m.tb.Context(), "/set", data)
	require.NoError(m.tb, err)
}

func (m *model) changeLoads() {
	loads := make(map[string]int)
	for _, name := range numbered(24) {
		loads[name] = 1 + m.random.IntN(1+m.random.IntN(100))
	}
	m.didf("loads %v", loads)
	m.report(loads)
}

// some returns a member at random.
func (m *model) some() (string, *worker) {
	ids := slices.Sorted(maps.Keys(m.members))
	id := ids[m.random.IntN(len(ids))]
	return id, m.members[id]
}

func (m *model) step() {
	id, k := m.some()
	switch n := m.random.IntN(13); {
	case n < 3 && len(m.members) < 6:
		m.joinOne(false)
	case n == 3 && len(m.members) > 1:
		m.leaves(id)
	case n == 4:
		m.didf("cut %s", id)
		k.link.Cut()
	case n == 5:
		m.didf("unplug %s", id)
		k.link.Refuse(true)
		k.link.Cut()
	case n == 6:
		m.didf("plug %s", id)
		k.link.Refuse(false)
		k.link.Heal()
	case n == 7:
		m.didf("silence %s", id)
		k.link.Blackhole(zkproxy.Both)
	case n == 8:
		m.didf("kill the session of %s", id)
		m.hurts(k)
		m.server.KillSession(k.client.Session().ID())
	case n == 9:
		m.changeSet(true)
	case n == 10:
		m.loseReplies()
	case n == 11:
		m.toggleDebris()
	case m.loads != nil:
		m.changeLoads()
	}
	pause := []time.Duration{0, time.Millisecond, 50 * time.Millisecond, time.Second, 4 * time.Second, 12 * time.Second}[m.random.IntN(6)]
	m.didf("pause %v", pause)
	time.Sleep(pause)
	synctest.Wait()
	m.check()
}

func (m *model) leaves(id string) {
	k := m.members[id]
	delete(m.members, id)
	delete(m.weights, id)
	k.link.Refuse(false)
	k.link.Heal()
	k.leave()
}

// toggleDebris makes or deletes a persistent znode among the members. Its name may be a member's that
// is not there.
func (m *model) toggleDebris() {
	at := fmt.Sprintf("%s/members/m%02d", root, m.random.IntN(24))
	stat, err := m.theirs.Exists(m.tb.Context(), at)
	require.NoError(m.tb, err)
	switch {
	case stat == nil:
		m.didf("a persistent %s", at)
		_, err = m.theirs.Create(m.tb.Context(), at, []byte(`{"capacity":1}`), framework.CreatingParentContainersIfNeeded())
	case stat.EphemeralOwner == 0:
		m.didf("delete the persistent %s", at)
		err = m.theirs.Delete(m.tb.Context(), at)
	}
	if !errors.Is(err, framework.ErrNodeExists) && !errors.Is(err, framework.ErrNoNode) { // a member was there first
		require.NoError(m.tb, err)
	}
}

// handOver has newcomers join a group at rest, and all other members leave before or after the
// newcomers have got their shares.
func (m *model) handOver() {
	old := slices.Sorted(maps.Keys(m.members))
	for range 1 + m.random.IntN(3) {
		m.joinOne(true)
	}
	if len(m.members) == len(old) {
		return // the ids were taken
	}
	time.Sleep(time.Duration(m.random.IntN(3000)) * time.Millisecond)
	for _, id := range old {
		m.leaves(id)
	}
	left := time.Now()
	for _, name := range m.set {
		for m.owner(name) == "" {
			require.Less(m.tb, time.Since(left), m.unowned(), "%s has no holder, and newcomers are there:\n%s", name, m.told())
			time.Sleep(time.Millisecond)
		}
	}
	m.rest(time.Minute)
	m.requireAtRest()
	m.takenMoves()
	m.takenLoad()
}

// rest waits until the group has settled, and has reported its loads and divided them.
func (m *model) rest(d time.Duration) {
	if m.loads != nil {
		d += 3*partition.LoadPeriod + 12*time.Minute // what has moved counts with an old load for ten minutes
	}
	time.Sleep(d)
}

// loseReplies loses the replies to some of the next writes of the members.
func (m *model) loseReplies() {
	m.didf("lose replies")
	left := 3
	theirs := m.theirs.Session().ID()
	remove := m.server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if left > 0 && r.SessionID != theirs && (r.Op == zkserver.OpMulti || r.Op == zkserver.OpCreate || r.Op == zkserver.OpSetData) {
			left--
			return zkserver.LoseReply
		}
		return zkserver.Pass
	})
	time.Sleep(100 * time.Millisecond)
	remove()
}

// heal ends all trouble, and waits until the group is at rest.
func (m *model) heal() {
	for _, k := range m.members {
		k.link.Refuse(false)
		k.link.Heal()
	}
	m.didf("heal")
	// A dead session ends, pauses between failed attempts have become long, and the group settles.
	m.rest(2 * time.Minute)
	m.requireAtRest()
	m.takenMoves()
	m.takenLoad()
}

// requireAtRest checks that each partition of the set has a holder, and none besides, and that
// the shares follow the capacities.
func (m *model) requireAtRest() {
	m.tb.Helper()
	synctest.Wait()
	m.check()
	capacities := 0
	for id := range m.members {
		capacities += max(1, m.weights[id])
	}
	counts, total := m.counts(), 0
	for id := range m.members {
		total += counts[id]
		if m.loads != nil {
			m.requireLoad(id, capacities)
			continue
		}
		exact := float64(len(m.set)) * float64(max(1, m.weights[id])) / float64(capacities)
		require.InDelta(m.tb, exact, counts[id], 0.9999, "%s of %v has %d, expected %v:\n%s", id, counts, counts[id], exact, m.told())
	}
	for _, name := range m.set {
		require.NotEmpty(m.tb, m.owner(name), "%s has no holder:\n%s", name, m.told())
	}
	require.Equal(m.tb, len(m.set), total, m.told())
}

func (m *model) wholeLoad() (sum int) {
	for _, name := range m.set {
		sum += m.loads[name]
	}
	return sum
}

// requireLoad checks that a member is within a tenth of its part, as far as one partition less allows.
func (m *model) requireLoad(id string, capacities int) {
	m.tb.Helper()
	load, lightest, count := 0, 0, 0
	for _, name := range m.set {
		if m.owner(name) == id {
			load, count = load+m.loads[name], count+1
			lightest = min(cmp.Or(lightest, m.loads[name]), m.loads[name])
		}
	}
	ideal := float64(m.wholeLoad()*max(1, m.weights[id])) / float64(capacities)
	require.True(m.tb, count < 2 || float64(load) <= 1.1*ideal+float64(lightest), "%s has %d of %v, the lightest %d:\n%s",
		id, load, ideal, lightest, m.told())
}

// moveOneShare has a member join or leave a group at rest, and bounds what moves.
func (m *model) moveOneShare() {
	if m.returns > 0 && m.random.IntN(2) == 0 {
		id, k := m.some()
		opts := m.optionsOf(id)
		if m.weights[id] > 0 {
			opts = append(slices.Clip(opts), partition.WithCapacity(m.weights[id]))
		}
		k.restart(time.Duration(m.random.IntN(19000))*time.Millisecond, opts...)
		m.rest(time.Minute)
		m.requireAtRest()
		require.Zero(m.tb, m.takenMoves(), m.told())
		m.takenLoad()
		return
	}
	equal := len(m.weights) == 0
	before := len(m.members)
	var newcomer string
	share := 0
	if before < 6 && (before == 1 || m.random.IntN(2) == 0) {
		newcomer = m.joinOne(true)
		if m.most > 0 {
			m.requireUnderWay(m.most, 20*time.Second)
		}
	} else {
		id, k := m.some()
		share = m.counts()[id]
		if m.random.IntN(2) == 0 {
			m.didf("drain %s", id)
			ctx, cancel := context.WithTimeout(m.tb.Context(), time.Hour)
			require.NoError(m.tb, k.Drain(ctx), m.told())
			cancel()
			require.Zero(m.tb, m.counts()[id])
		}
		left := time.Now()
		m.leaves(id)
		for _, name := range m.set {
			for m.owner(name) == "" {
				require.Less(m.tb, time.Since(left), m.unowned(), "%s has no holder after an orderly leave:\n%s", name, m.told())
				time.Sleep(time.Millisecond)
			}
		}
	}
	m.rest(time.Minute)
	m.requireAtRest()
	moves, moved := m.takenMoves(), m.takenLoad()
	switch {
	case !equal: // then balance may demand more
	case m.loads != nil: // a plan may move one partition for each member beyond what balance needs, and the next one, too
		whole := m.wholeLoad()
		require.LessOrEqual(m.tb, moved, whole/max(1, len(m.members)-1)+2*before*slices.Max(slices.Collect(maps.Values(m.loads))), m.told())
	case newcomer != "":
		require.Equal(m.tb, m.counts()[newcomer], moves, m.told())
		require.LessOrEqual(m.tb, moves, (len(m.set)+before)/(before+1), m.told())
	case m.warmth != nil: // what a standby has too much moves again
		require.LessOrEqual(m.tb, moves, 2*share, m.told())
	default:
		require.Equal(m.tb, share, moves, m.told())
	}
}

// unowned is for how long a partition may have no holder after an orderly leave.
func (m *model) unowned() time.Duration {
	if m.warmth != nil {
		return m.returns + m.warmth.takes + time.Second
	}
	return m.returns + time.Second
}

// loseZone has all members of a zone die at once. Each of their partitions goes to a standby first, if there is
// another zone. Each standby is elsewhere, and is prepared.
func (m *model) loseZone() {
	if m.warmth == nil || m.settle == 0 {
		return
	}
	zones := make(map[string]string)
	for id := range m.members {
		zones[id] = zoneOf(id)
	}
	id, _ := m.some()
	lost := zones[id]
	left := slices.DeleteFunc(slices.Sorted(maps.Keys(m.members)), func(id string) bool { return zones[id] == lost })
	if len(left) == 0 {
		return
	}
	standbys := m.requireStandbys(1, zones, m.warmth)
	owners := make(map[string]string)
	for _, name := range m.set {
		owners[name] = m.owner(name)
	}
	m.didf("lose %s", lost)
	from := len(m.story)
	for id, k := range m.members {
		if zones[id] == lost {
			k.dies()
		}
	}
	time.Sleep(time.Second)
	for _, name := range m.set {
		require.NotEmpty(m.tb, m.owner(name), m.told())
		if zones[owners[name]] == lost {
			require.Contains(m.tb, standbys[name], m.firstHolder(name, from), m.told())
		}
	}
	m.heal()
}

// firstHolder returns the first member that has got a partition since.
func (m *model) firstHolder(name string, from int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, line := range m.story[from:] {
		if id, found := strings.CutSuffix(line, " has "+name); found {
			return id
		}
	}
	return ""
}

func (m *model) end() {
	for id := range m.members {
		m.leaves(id)
	}
	if m.returns > 0 { // the plan has stayed for them
		last := m.join("last")
		time.Sleep(2 * m.returns)
		last.leave()
	}
	time.Sleep(time.Minute) // what an outage has left is deleted in the background
	m.requireNothingLeft()
}
