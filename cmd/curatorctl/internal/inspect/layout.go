// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
)

// tree is what is known of the names in a subtree.
type tree map[string]folder

// draftsAt returns the recipes at a path, by the names in its folder and in those beside.
func (t tree) draftsAt(path string, c config) []*draft {
	in := t[path]
	var drafts []*draft
	if d := t.semaphore(path, c); d != nil {
		drafts = append(drafts, d)
	}
	held := in.of(Slots)
	for _, q := range in.queues {
		if t.isPartOfSemaphore(path, q.kind) || len(held) > 0 && q.kind == Mutex { // who waits for a number
			continue
		}
		if q.kind == Slots {
			drafts = append(drafts, newSlots(path, held, in.of(Mutex), c))
			continue
		}
		if q.kind == Semaphore {
			drafts = append(drafts, newSemaphore(path, path, q.queue, "", nil, c))
			continue
		}
		drafts = append(drafts, newLock(path, q, c))
	}
	if len(in.items) > 0 {
		drafts = append(drafts, &draft{recipe: Recipe{Path: path, Kind: Queue, Items: len(in.items)}})
	}
	for _, find := range []func(string, config) *draft{t.kazooSemaphore, t.members, t.group, t.jobs} {
		if d := find(path, c); d != nil {
			drafts = append(drafts, d)
		}
	}
	for _, d := range drafts {
		d.recipe.Foreign = append(d.recipe.Foreign, in.foreignTo(d.recipe.Kind)...)
	}
	return drafts
}

// ownNames are the names in the folder of a recipe, beside those of its participants and items.
var ownNames = map[Kind][]string{
	DoubleBarrier: {readyName},
	Semaphore:     {leasesFolder, turnsFolder},
	Jobs:          {jobsFolder, groupFolder},
	Partitions:    {membersFolder, planFolder, turnsFolder, "orders"},
}

// has reports whether a name is one of a recipe's own.
func (k Kind) has(name string) bool {
	number, isMarker := strings.CutPrefix(name, markerName)
	return slices.Contains(ownNames[k], name) || k == Slots && isMarker && isNumber(number)
}

// foreignTo returns the names in the folder that are nothing to a recipe of the kind.
func (in folder) foreignTo(kind Kind) []string {
	names := slices.DeleteFunc(slices.Clone(in.others), kind.has)
	for _, q := range in.queues {
		isOwn := q.kind == kind || kind == Slots && q.kind == Mutex // the turns of a slot
		for _, c := range q.queue {
			if !isOwn || c.isForeign {
				names = append(names, c.name)
			}
		}
	}
	if kind != Queue {
		names = append(names, in.items...)
	}
	if kind != DoubleBarrier && kind != Service {
		names = append(names, in.members...)
	}
	if kind != KazooSemaphore {
		names = append(names, in.permits...)
	}
	slices.Sort(names)
	return names
}

// newLock is a queue in which those with the exclusive name are let in alone.
func newLock(path string, q contenders, cfg config) *draft {
	d := &draft{config: cfg, recipe: Recipe{Path: path, Kind: q.kind}}
	d.whole = func() *draft { return newLock(path, q, cfg.ofAll()) }
	var before order
	added := make([]*node, len(q.queue))
	previous, isFirst := (*node)(nil), true // that takes part
	for i, c := range q.queue {
		n := node{lockName: c.lockName, isForeign: c.isForeign}
		waitsFor := before.of(c)
		n.holds = waitsFor < 0
		if waitsFor >= 0 && added[waitsFor] != nil {
			n.waitsFor = []string{added[waitsFor].path}
		}
		added[i] = d.add(path, c.name, n, !cfg.heads || n.holds || isFirst || previous != nil && previous.holds)
		if !c.isForeign {
			previous, isFirst = added[i], false
		}
	}
	return d
}

// semaphore returns the semaphore at a path, nil if there is none.
func (t tree) semaphore(path string, c config) *draft {
	if !t.isSemaphore(path) {
		return nil
	}
	leases, turns := framework.JoinPath(path, leasesFolder), framework.JoinPath(path, turnsFolder)
	d := newSemaphore(path, leases, t[leases].of(Semaphore), turns, t[turns].of(Mutex), c)
	for _, name := range t[leases].foreignTo(Semaphore) {
		d.recipe.Foreign = append(d.recipe.Foreign, framework.JoinPath("/"+leasesFolder, name)[1:])
	}
	return d
}

// isSemaphore reports whether a path has the two folders of a semaphore, and in them what
// belongs there or nothing.
func (t tree) isSemaphore(path string) bool {
	in := t[path]
	leases, known := t[framework.JoinPath(path, leasesFolder)]
	if !known || !slices.Contains(in.others, leasesFolder) {
		return false
	}
	if len(leases.of(Semaphore)) > 0 {
		return true
	}
	turns, known := t[framework.JoinPath(path, turnsFolder)]
	return known && slices.Contains(in.others, turnsFolder) && leases.isEmpty() && len(turns.foreignTo(Mutex)) == 0
}

// isPartOfSemaphore reports whether a queue in the folder belongs to a semaphore at the parent.
func (t tree) isPartOfSemaphore(path string, kind Kind) bool {
	parent, name := framework.SplitPath(path)
	switch {
	case name == leasesFolder && kind == Semaphore, name == turnsFolder && kind == Mutex:
		return t.isSemaphore(parent)
	case kind == KazooLock && strings.HasSuffix(path, kazooTurns):
		of, known := t[strings.TrimSuffix(path, kazooTurns)]
		return known && len(of.permits) > 0
	default:
		return false
	}
}

func (in folder) of(kind Kind) []contender {
	for _, q := range in.queues {
		if q.kind == kind {
			return q.queue
		}
	}
	return nil
}

func (in folder) isEmpty() bool {
	return len(in.queues)+len(in.items)+len(in.members)+len(in.permits)+len(in.others) == 0
}

// newSemaphore is permits, and a queue for the turn in which one acquires them.
func newSemaphore(path, leases string, permits []contender, turnsPath string, turns []contender, cfg config) *draft {
	d := &draft{config: cfg, recipe: Recipe{Path: path, Kind: Semaphore, MaxLeases: cfg.maxLeases}}
	d.whole = func() *draft { return newSemaphore(path, leases, permits, turnsPath, turns, cfg.ofAll()) }
	var last *node
	for i, c := range permits {
		last = d.add(leases, c.name, node{lockName: c.lockName, holds: cfg.maxLeases == 0 || i < cfg.maxLeases, isForeign: c.isForeign},
			!cfg.heads || i == 0 || i == len(permits)-1)
	}
	turn := d.addTurns(turnsPath, turns, !cfg.heads)
	if last != nil && turn != nil && cfg.maxLeases == 0 {
		d.finish = func(d *draft) {
			// Permits are acquired one by one, so the owner of this turn can wait only for its last permit.
			if last.isFollowing(turn) {
				last.holds = false
				d.recipe.MaxLeases = len(permits) - 1
			}
		}
	}
	return d
}

// addTurns adds contenders for a turn, all of them or the head alone, and returns the first, nil if there is none.
func (d *draft) addTurns(path string, turns []contender, all bool) (first *node) {
	for i, c := range turns {
		n := node{lockName: c.lockName, isForeign: c.isForeign}
		if i > 0 && all {
			n.waitsFor = []string{framework.JoinPath(path, turns[i-1].name)}
		}
		if added := d.add(path, c.name, n, all || i == 0); i == 0 {
			first = added
		}
	}
	return first
}

// isFollowing reports whether a node is of the same session as another one, and newer.
func (n *node) isFollowing(other *node) bool {
	return !n.gone() && !other.gone() && n.stat.EphemeralOwner == other.stat.EphemeralOwner && n.stat.Czxid > other.stat.Czxid
}

// newSlots is numbers that are held, in their order, and those who wait for one in the same folder. The first of these is next.
func newSlots(path string, held, turns []contender, cfg config) *draft {
	d := &draft{config: cfg, recipe: Recipe{Path: path, Kind: Slots}}
	d.whole = func() *draft { return newSlots(path, held, turns, cfg.ofAll()) }
	oldest := held[0].name
	held = slices.SortedStableFunc(slices.Values(held), func(a, b contender) int { // numbers without leading zeros
		return cmp.Or(cmp.Compare(len(a.lockName), len(b.lockName)), strings.Compare(a.lockName, b.lockName))
	})
	for i, c := range held {
		n := node{lockName: c.lockName, holds: true}
		if i > 0 && held[i-1].lockName == c.lockName { // another process was faster
			n.holds, n.waitsFor = false, []string{framework.JoinPath(path, held[i-1].name)}
		}
		d.add(path, c.name, n, !cfg.heads || c.name == oldest)
	}
	d.addTurns(path, turns, !cfg.heads)
	return d
}

// kazooSemaphore returns the semaphore of kazoo at a path, nil if there is none. It has a node for each permit, in no order, and a
// lock beside it.
func (t tree) kazooSemaphore(path string, cfg config) *draft {
	if _, hasTurns := t[path+kazooTurns]; !hasTurns || len(t[path].permits) == 0 || len(t[path].queues) > 0 {
		return nil
	}
	d := &draft{config: cfg.ofAll(), recipe: Recipe{Path: path, Kind: KazooSemaphore}, folder: &node{path: path, read: true}}
	for _, name := range t[path].permits {
		d.add(path, name, node{holds: true}, true)
	}
	permits := len(d.nodes)
	d.addTurns(path+kazooTurns, t[path+kazooTurns].of(KazooLock), true)
	d.finish = func(d *draft) {
		d.recipe.MaxLeases = digits(d.folder.data)
		slices.SortFunc(d.nodes[:permits], func(a, b *node) int { return cmp.Compare(a.stat.Czxid, b.stat.Czxid) })
		for i, n := range d.nodes[:permits] {
			n.position = i
		}
	}
	return d
}

// digits returns the number that is written there, 0 if there is none.
func digits(data []byte) int {
	n := 0
	for _, b := range data {
		if b < '0' || b > '9' || n > 1<<20 {
			return 0
		}
		n = 10*n + int(b-'0')
	}
	return n
}

// members returns what has children named by UUIDs: a double barrier, or the instances of a
// service, whose data is JSON.
func (t tree) members(path string, cfg config) *draft {
	in := t[path]
	isOpen := slices.Contains(in.others, readyName)
	for _, name := range in.members {
		if !t[framework.JoinPath(path, name)].isEmpty() {
			return nil
		}
	}
	if len(in.members) == 0 || len(in.others) > 1 || len(in.others) == 1 && !isOpen {
		return nil
	}
	d := &draft{config: cfg, recipe: Recipe{Path: path, Kind: DoubleBarrier}}
	for i, name := range in.members {
		d.add(path, name, node{holds: isOpen}, !cfg.heads || i == 0)
	}
	d.finish = func(d *draft) {
		if len(d.nodes) == 0 {
			return // there is no room to tell
		}
		first := d.nodes[0]
		switch {
		case strings.HasPrefix(string(first.data), "{"):
			d.recipe.Kind = Service
		case first.gone() || first.stat.EphemeralOwner == 0:
			d.recipe.Kind = "" // folders that are named by UUIDs
		}
	}
	return d
}

// group returns the members of a group that divides partitions, nil if there is none.
func (t tree) group(path string, cfg config) *draft {
	for _, name := range []string{membersFolder, planFolder, turnsFolder} {
		if !slices.Contains(t[path].others, name) {
			return nil
		}
	}
	members := t[framework.JoinPath(path, membersFolder)]
	d := &draft{config: cfg, recipe: Recipe{Path: path, Kind: Partitions, Items: len(t[framework.JoinPath(path, turnsFolder)].names())}}
	for _, name := range members.names() {
		d.add(framework.JoinPath(path, membersFolder), name, node{}, !cfg.heads)
	}
	return d
}

// jobs returns the fleet with jobs at a path, nil if there is none. The state of its first job shows that it is one.
func (t tree) jobs(path string, cfg config) *draft {
	folder := framework.JoinPath(path, jobsFolder)
	names := t[folder].names()
	if !slices.Contains(t[path].others, jobsFolder) || len(names) == 0 {
		return nil
	}
	d := &draft{config: cfg, recipe: Recipe{Path: path, Kind: Jobs, Items: len(names)}}
	d.folder = &node{path: framework.JoinPath(folder, slices.Min(names), stateName), read: true}
	d.finish = func(d *draft) {
		isLong := len(d.folder.data) == 0 && d.folder.stat.DataLength > 0 // for the memory limit
		if d.folder.err != nil || !isLong && !strings.HasPrefix(string(d.folder.data), "{") {
			d.recipe.Kind = ""
		}
	}
	return d
}

// names returns all names in a folder that are not contenders of a lock.
func (in folder) names() []string {
	return slices.Concat(in.others, in.members, in.permits, in.items)
}
