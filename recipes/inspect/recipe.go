// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// Recipe is one recipe at one path, at one moment. In JSON its keys are lower case.
type Recipe struct {
	Path string `json:"path"`
	Kind Kind   `json:"kind"`

	// Holders and Waiters count the participants. A permit of a semaphore counts once. The
	// members of a double barrier hold when it is open, and wait until then.
	Holders int `json:"holders"`
	Waiters int `json:"waiters"`

	// Items counts the items of a queue, the instances of a service, or the partitions of a group.
	Items int `json:"items,omitempty"`

	// MaxLeases is the maximum of a semaphore, 0 where it is not known. Kazoo writes it down.
	// For another semaphore it is what [WithMaxLeases] says. Without that it is known only
	// while an owner waits for a permit: it is then the number of the permits that others have.
	// For one round trip, while an owner that will get its permit has not yet seen that it
	// has it, this is too low by one.
	MaxLeases int `json:"maxLeases,omitempty"`

	// Participants are in the order of the queue. For a semaphore they are the permits,
	// then the contenders for the turn in which one acquires permits. After [HeadsOnly]
	// some are missing. One whose node this client may not read has a path and no more.
	Participants []locks.Participant `json:"participants,omitempty"`

	// Foreign are the names of children that do not take part. Curator in Java counts those
	// in the folder of a semaphore's leases as permits; all other recipes ignore them.
	Foreign []string `json:"foreign,omitempty"`
}

// OldestHold returns the participant that has held for longest, by when it joined the queue.
func (r Recipe) OldestHold() (p locks.Participant, found bool) {
	return oldest(r.Participants, func(p locks.Participant) bool { return p.Holds })
}

// LongestWait returns the participant that has waited for longest.
func (r Recipe) LongestWait() (p locks.Participant, found bool) {
	return oldest(r.Participants, func(p locks.Participant) bool { return !p.Holds })
}

func oldest(of []locks.Participant, fits func(locks.Participant) bool) (p locks.Participant, found bool) {
	for _, q := range of {
		if fits(q) && !q.Since.IsZero() && (!found || q.Since.Before(p.Since)) {
			p, found = q, true
		}
	}
	return p, found
}

// node is a znode of a recipe and what is read of it.
type node struct {
	path     string
	lockName string
	holds    bool
	waitsFor []string

	read bool // to be read
	data []byte
	stat framework.Stat
	err  error
}

func (n *node) gone() bool { return errors.Is(n.err, framework.ErrNoNode) }

// draft is a recipe as the names alone show it.
type draft struct {
	recipe Recipe
	nodes  []*node
	folder *node // the znode at the path, where its data matters
	finish func(d *draft)
}

// tree is what is known of the names in a subtree.
type tree map[string]folder

// draftsAt returns the recipes at a path, by the names in its folder and in those beside.
func (t tree) draftsAt(path string, heads bool, maxLeases int) []*draft {
	in := t[path]
	var drafts []*draft
	if d := t.semaphore(path, heads, maxLeases); d != nil {
		drafts = append(drafts, d)
	}
	for _, q := range in.queues {
		if t.isPartOfSemaphore(path, q.kind) {
			continue
		}
		if q.kind == Semaphore {
			drafts = append(drafts, newSemaphore(path, path, q.queue, "", nil, heads, maxLeases))
			continue
		}
		drafts = append(drafts, newLock(path, q, heads))
	}
	if len(in.items) > 0 {
		drafts = append(drafts, &draft{recipe: Recipe{Path: path, Kind: Queue, Items: len(in.items)}})
	}
	if len(in.permits) > 0 && len(in.queues) == 0 {
		drafts = append(drafts, t.kazooSemaphore(path))
	}
	if d := t.members(path, heads); d != nil {
		drafts = append(drafts, d)
	}
	if d := t.group(path, heads); d != nil {
		drafts = append(drafts, d)
	}
	for _, d := range drafts {
		d.recipe.Foreign = append(d.recipe.Foreign, in.foreignTo(d.recipe.Kind)...)
	}
	return drafts
}

// foreignTo returns the names in the folder that are nothing to a recipe of the kind.
func (in folder) foreignTo(kind Kind) []string {
	var names []string
	for _, name := range in.others {
		switch {
		case kind == DoubleBarrier && name == readyName:
		case kind == Semaphore && (name == leasesFolder || name == turnsFolder):
		case kind == Partitions && (name == membersFolder || name == planFolder || name == turnsFolder):
		default:
			names = append(names, name)
		}
	}
	for _, q := range in.queues {
		if q.kind != kind {
			for _, c := range q.queue {
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
func newLock(path string, q contenders, heads bool) *draft {
	d := &draft{recipe: Recipe{Path: path, Kind: q.kind}}
	lastExclusive, beforeThat := -1, -1
	for i, c := range q.queue {
		n := &node{path: framework.JoinPath(path, c.name), lockName: c.lockName}
		waitsFor := i - 1
		if c.shared {
			waitsFor = lastExclusive
			if waitsFor >= 0 && q.queue[waitsFor].number == c.number {
				waitsFor = beforeThat // this reader has taken the place of that writer
			}
		} else {
			lastExclusive, beforeThat = i, lastExclusive
		}
		switch {
		case q.kind == Condition:
		case waitsFor < 0:
			n.holds = true
		default:
			n.waitsFor = []string{d.nodes[waitsFor].path}
		}
		n.read = !heads || n.holds || i == 0 || d.nodes[i-1].holds
		d.nodes = append(d.nodes, n)
	}
	return d
}

// semaphore returns the semaphore at a path, nil if there is none.
func (t tree) semaphore(path string, heads bool, maxLeases int) *draft {
	if !t.isSemaphore(path) {
		return nil
	}
	leases, turns := framework.JoinPath(path, leasesFolder), framework.JoinPath(path, turnsFolder)
	d := newSemaphore(path, leases, t[leases].of(Semaphore), turns, t[turns].of(Mutex), heads, maxLeases)
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
func newSemaphore(path, leases string, permits []contender, turnsPath string, turns []contender, heads bool, maxLeases int) *draft {
	d := &draft{recipe: Recipe{Path: path, Kind: Semaphore, MaxLeases: maxLeases}}
	for i, c := range permits {
		d.nodes = append(d.nodes, &node{
			path: framework.JoinPath(leases, c.name), lockName: c.lockName, holds: maxLeases == 0 || i < maxLeases,
			read: !heads || i == 0 || i == len(permits)-1,
		})
	}
	for i, c := range turns {
		n := &node{path: framework.JoinPath(turnsPath, c.name), lockName: c.lockName, read: !heads || i == 0}
		if i > 0 {
			n.waitsFor = []string{framework.JoinPath(turnsPath, turns[i-1].name)}
		}
		d.nodes = append(d.nodes, n)
	}
	if len(permits) > 0 && len(turns) > 0 && maxLeases == 0 {
		last, turn := d.nodes[len(permits)-1], d.nodes[len(permits)]
		d.finish = func(d *draft) {
			// Permits are acquired one by one, so only the last one of this turn can be waited for.
			if !last.gone() && !turn.gone() && last.stat.EphemeralOwner == turn.stat.EphemeralOwner && last.stat.Czxid > turn.stat.Czxid {
				last.holds = false
				d.recipe.MaxLeases = len(permits) - 1
			}
		}
	}
	return d
}

// kazooSemaphore has a node for each permit, in no order, and a lock beside it.
func (t tree) kazooSemaphore(path string) *draft {
	d := &draft{recipe: Recipe{Path: path, Kind: KazooSemaphore}, folder: &node{path: path, read: true}}
	for _, name := range t[path].permits {
		d.nodes = append(d.nodes, &node{path: framework.JoinPath(path, name), holds: true, read: true})
	}
	turns := newLock(path+kazooTurns, contenders{queue: t[path+kazooTurns].of(KazooLock)}, false)
	for _, n := range turns.nodes {
		n.holds = false
	}
	d.nodes = append(d.nodes, turns.nodes...)
	d.finish = func(d *draft) {
		d.recipe.MaxLeases = digits(d.folder.data)
		permits := d.nodes[:len(t[path].permits)]
		slices.SortFunc(permits, func(a, b *node) int { return cmp.Compare(a.stat.Czxid, b.stat.Czxid) })
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
func (t tree) members(path string, heads bool) *draft {
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
	d := &draft{recipe: Recipe{Path: path, Kind: DoubleBarrier}}
	for i, name := range in.members {
		d.nodes = append(d.nodes, &node{path: framework.JoinPath(path, name), holds: isOpen, read: !heads || i == 0})
	}
	d.finish = func(d *draft) {
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
func (t tree) group(path string, heads bool) *draft {
	for _, name := range []string{membersFolder, planFolder, turnsFolder} {
		if !slices.Contains(t[path].others, name) {
			return nil
		}
	}
	members := t[framework.JoinPath(path, membersFolder)]
	d := &draft{recipe: Recipe{Path: path, Kind: Partitions, Items: len(t[framework.JoinPath(path, turnsFolder)].names())}}
	for _, name := range members.names() {
		d.nodes = append(d.nodes, &node{path: framework.JoinPath(path, membersFolder, name), read: !heads})
	}
	return d
}

// names returns all names in a folder that are not contenders of a lock.
func (in folder) names() []string {
	return slices.Concat(in.others, in.members, in.permits, in.items)
}

// done returns the recipe, and false if there is none after all.
func (d *draft) done() (Recipe, bool) {
	if d.finish != nil {
		d.finish(d)
	}
	r := d.recipe
	if r.Kind == "" {
		return r, false
	}
	waitsForPermit := 0 // permits that are waited for; their owner has a turn, too
	turns := 0
	for i, n := range d.nodes {
		switch {
		case n.gone():
			continue
		case r.Kind == Service:
			r.Items++
		case r.Kind == Partitions: // its members neither hold nor wait by this
		case n.holds:
			r.Holders++
		case n.lockName == leaseName:
			waitsForPermit++
		default:
			turns++
		}
		if n.read {
			p := locks.ParticipantOf(n.path, n.lockName, n.data, n.stat)
			p.Position, p.Holds, p.WaitsFor = i, n.holds && r.Kind != Service, n.waitsFor
			if n.err != nil {
				p.Since = time.Time{} // it may not be read
			}
			r.Participants = append(r.Participants, p)
		}
	}
	r.Waiters = max(turns, waitsForPermit)
	return r, true
}
