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

	// Items counts the items of a queue, the instances of a service, the partitions of a group, or jobs.
	Items int `json:"items,omitempty"`

	// MaxLeases is the maximum of a semaphore, 0 where it is not known. kazoo stores it in the znode.
	// For another semaphore it is what [WithMaxLeases] says. Without it, MaxLeases is known only while
	// an owner waits for a permit. It is then the number of permits that other owners have. It may be
	// one too low while a grant is in flight.
	MaxLeases int `json:"maxLeases,omitempty"`

	// Participants are in the order of the queue. For a semaphore they are the permits, then the
	// contenders for the turn in which one acquires permits. After [HeadsOnly] some are missing. A
	// participant whose node this client may not read has only a path.
	Participants []locks.Participant `json:"participants,omitempty"`

	// Foreign are the names of children that do not take part. Most recipes ignore them. But a znode whose name
	// ends like a contender's keeps out the contenders behind it, although it is persistent or has a name that no
	// library gives. They have it in WaitsFor. And Curator in Java counts each znode in the folder of a
	// semaphore's leases as a permit.
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

	isForeign bool // by its name
	position  int
	read      bool // to be read
	data      []byte
	stat      framework.Stat
	err       error
}

func (n *node) gone() bool { return errors.Is(n.err, framework.ErrNoNode) }

// isPersistent reports whether the node was read and belongs to no session.
func (n *node) isPersistent() bool { return n.stat.Czxid != 0 && n.stat.EphemeralOwner == 0 }

// draft is a recipe as the names alone show it.
type draft struct {
	config
	recipe Recipe
	nodes  []*node // that are read
	folder *node   // the znode that says what it is, where its data matters
	finish func(d *draft)
	whole  func() *draft // the same with all participants, where only heads are read

	size                      int // of the queue
	holding, permits, waiting int // participants: permits are waited for, and their owners wait, too
}

// add takes the next node of the queue. A participant that is not read, or for which there is no
// room, only counts. Then add returns nil.
func (d *draft) add(folder, name string, n node, read bool) *node {
	n.position = d.size
	d.size++
	if n.isForeign {
		n.path = framework.JoinPath(folder, name)
		return &n
	}
	if !read && !d.all || !d.room.takes(len(folder)+len(name)+nodeCost) {
		d.count(&n)
		return nil
	}
	n.path, n.read = framework.JoinPath(folder, name), true
	d.nodes = append(d.nodes, &n)
	return &n
}

func (d *draft) count(n *node) {
	switch {
	case n.holds:
		d.holding++
	case n.lockName == leaseName:
		d.permits++
	default:
		d.waiting++
	}
}

// tree is what is known of the names in a subtree.
type tree map[string]folder

// draftsAt returns the recipes at a path, by the names in its folder and in those beside.
func (t tree) draftsAt(path string, c config) []*draft {
	in := t[path]
	var drafts []*draft
	if d := t.semaphore(path, c); d != nil {
		drafts = append(drafts, d)
	}
	for _, q := range in.queues {
		if t.isPartOfSemaphore(path, q.kind) {
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
	if _, hasTurns := t[path+kazooTurns]; hasTurns && len(in.permits) > 0 && len(in.queues) == 0 {
		drafts = append(drafts, t.kazooSemaphore(path, c))
	}
	if d := t.members(path, c); d != nil {
		drafts = append(drafts, d)
	}
	if d := t.group(path, c); d != nil {
		drafts = append(drafts, d)
	}
	if d := t.jobs(path, c); d != nil {
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
		case kind == Jobs && (name == jobsFolder || name == groupFolder):
		case kind == Partitions && (name == membersFolder || name == planFolder || name == turnsFolder):
		default:
			names = append(names, name)
		}
	}
	for _, q := range in.queues {
		for _, c := range q.queue {
			if q.kind != kind || c.isForeign {
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
		n.holds = q.kind != Condition && waitsFor < 0
		if q.kind != Condition && waitsFor >= 0 && added[waitsFor] != nil {
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
	var last, turn *node
	for i, c := range permits {
		last = d.add(leases, c.name, node{lockName: c.lockName, holds: cfg.maxLeases == 0 || i < cfg.maxLeases, isForeign: c.isForeign},
			!cfg.heads || i == 0 || i == len(permits)-1)
	}
	for i, c := range turns {
		n := node{lockName: c.lockName, isForeign: c.isForeign}
		if i > 0 && !cfg.heads {
			n.waitsFor = []string{framework.JoinPath(turnsPath, turns[i-1].name)}
		}
		if added := d.add(turnsPath, c.name, n, !cfg.heads || i == 0); i == 0 {
			turn = added
		}
	}
	if last != nil && turn != nil && cfg.maxLeases == 0 {
		d.finish = func(d *draft) {
			// Permits are acquired one by one, so the owner of this turn can wait only for its last permit.
			if !last.gone() && !turn.gone() && last.stat.EphemeralOwner == turn.stat.EphemeralOwner && last.stat.Czxid > turn.stat.Czxid {
				last.holds = false
				d.recipe.MaxLeases = len(permits) - 1
			}
		}
	}
	return d
}

// kazooSemaphore has a node for each permit, in no order, and a lock beside it.
func (t tree) kazooSemaphore(path string, cfg config) *draft {
	d := &draft{config: cfg.ofAll(), recipe: Recipe{Path: path, Kind: KazooSemaphore}, folder: &node{path: path, read: true}}
	for _, name := range t[path].permits {
		d.add(path, name, node{holds: true}, true)
	}
	permits := len(d.nodes)
	turns := t[path+kazooTurns].of(KazooLock)
	for i, c := range turns {
		n := node{lockName: c.lockName, isForeign: c.isForeign}
		if i > 0 {
			n.waitsFor = []string{framework.JoinPath(path+kazooTurns, turns[i-1].name)}
		}
		d.add(path+kazooTurns, c.name, n, true)
	}
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

// ofContenders reports whether all participants of the recipe are ephemeral.
func (d *draft) ofContenders() bool { return d.recipe.Kind.IsLock() || d.recipe.Kind == Condition }

// isMixed reports whether a node that was read as a contender is persistent. Then the others must be read, too.
func (d *draft) isMixed() bool {
	return d.ofContenders() && slices.ContainsFunc(d.nodes, (*node).isPersistent)
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
	for _, n := range d.nodes {
		switch {
		case n.gone():
			continue
		case d.ofContenders() && n.isPersistent():
			r.Foreign = append(r.Foreign, strings.TrimPrefix(n.path, r.Path+"/"))
			continue
		}
		d.count(n)
		p := locks.ParticipantOf(n.path, n.lockName, n.data, n.stat)
		p.Position, p.Holds, p.WaitsFor = n.position, n.holds && r.Kind != Service, n.waitsFor
		if n.stat.Czxid == 0 {
			p.Since = time.Time{} // it may not be read
		}
		r.Participants = append(r.Participants, p)
	}
	if d.isMixed() && d.holding+d.permits+d.waiting == 0 {
		return r, false // an application names its znodes like contenders
	}
	if d.heads && d.all {
		r.Participants = headsOf(r.Participants)
	}
	slices.Sort(r.Foreign)
	switch r.Kind {
	case Service:
		r.Items = d.holding + d.waiting
	case Partitions, Jobs: // its members neither hold nor wait by this
	default:
		r.Holders, r.Waiters = d.holding, max(d.waiting, d.permits)
	}
	return r, true
}

// headsOf returns the participants up to the first waiter.
func headsOf(all []locks.Participant) []locks.Participant {
	if first := slices.IndexFunc(all, func(p locks.Participant) bool { return !p.Holds }); first >= 0 {
		return all[:first+1]
	}
	return all
}
