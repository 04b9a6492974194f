// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

const (
	maxLoads = 50_000 // locks whose figures are kept
	maxTurns = 20_000 // that have ended, of all locks
	mostLong = 3      // holds of one lock
)

// Turn is one acquisition: a contender that waits, holds, or has left.
type Turn struct {
	Owner   string    `json:"owner"` // as [Name] says it; empty if the turn was too short to be read
	Joined  time.Time `json:"joined"`
	Granted time.Time `json:"granted,omitzero"` // zero while it waits
	Left    time.Time `json:"left,omitzero"`    // zero while it is there
	Lost    bool      `json:"lost,omitempty"`   // its client did not answer any more when it left
	Early   bool      `json:"early,omitempty"`  // it was there before; Joined is by its znode, and Granted is not known if it held already

	path string // of the lock
}

// Load is what one lock had to bear.
type Load struct {
	Path    string  `json:"path"`
	Kind    Kind    `json:"kind"`
	Turns   int     `json:"turns"`   // that have ended, by a release or a loss
	Losses  int     `json:"losses"`  // contenders that left when their clients did not answer any more
	Held    float64 `json:"held"`    // the share of the time in which it was held, up to 1
	Waiters float64 `json:"waiters"` // the mean
	Most    int     `json:"mostWaiters"`
	Wait    Times   `json:"wait"`    // of grants, and of waits that go on for longer than those
	Hold    Times   `json:"hold"`    // of holds that have ended; of one that had begun before, if it was the longest, what was seen
	Longest []Turn  `json:"longest"` // holds, those that go on too
}

// Times are times in seconds. P50 and P99 are within a hundredth.
type Times struct {
	Count int     `json:"count"` // how many were measured; if it is 0 the others say nothing
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`

	// AtLeast says that some of the times go on, or had begun before they were seen. All figures are least values then.
	AtLeast bool `json:"atLeast,omitempty"`
}

// MarshalJSON implements [json.Marshaler]. What was not measured is null.
func (t Times) MarshalJSON() ([]byte, error) {
	if t.Count == 0 {
		return []byte("null"), nil
	}
	type plain Times
	return json.Marshal(plain(t))
}

// place is where a lock, or the queue in a folder, is.
type place struct {
	path string
	kind Kind
}

// ledger has the queues below a path as they are, and what they have done since a time.
type ledger struct {
	since time.Time
	lines map[place]*line
	loads map[place]*load
	past  []Turn // that have ended; a ring, once it is full
	next  int    // place in the ring

	first   bool            // what joins was there before
	gone    map[string]bool // nodes that were deleted during a look; nil while there is none
	dropped bool            // there is no room for more locks
}

func newLedger(now time.Time) *ledger {
	return &ledger{since: now, lines: make(map[place]*line), loads: make(map[place]*load), first: true}
}

// turn is a contender in a line.
type turn struct {
	Turn
	contender

	came     time.Time // when the node was first seen
	isRead   bool      // Owner is known
	sawGrant bool      // when it was granted is known
	dead     bool      // its client did not answer at the last look
}

// line is the queue in one folder.
type line struct {
	*load
	folder string
	turns  []*turn

	// These are of a semaphore, or of slots. Permits are acquired one by one, by the first in the entrance, so the last permit may
	// wait until that one leaves.
	entrance, permits *line // of each other
	pending           *turn
}

// load is a Load that goes on.
type load struct {
	Load
	at           time.Time // until when it is reckoned
	wait, hold   spread
	holders      int
	waiters      int
	held, waited time.Duration
	longest      []Turn
}

func (l *ledger) loadAt(at place, now time.Time) *load {
	if l.loads[at] == nil {
		found := &load{Load: Load{Path: at.path, Kind: at.kind}, at: now}
		if len(l.loads) >= maxLoads {
			l.dropped = true
			return found
		}
		l.loads[at] = found
	}
	return l.loads[at]
}

func (l *ledger) lineAt(folder string, kind Kind, now time.Time) *line {
	at := place{folder, kind}
	if q := l.lines[at]; q != nil {
		return q
	}
	q := &line{folder: folder}
	l.lines[at] = q
	turns := folder // of slots
	if parent, name := framework.SplitPath(folder); kind == Semaphore && name == leasesFolder {
		at.path, turns = parent, framework.JoinPath(parent, turnsFolder)
	}
	q.load = l.loadAt(at, now)
	if turns != folder || kind == Slots {
		q.entrance = l.lineAt(turns, Mutex, now)
		q.entrance.permits = q
		delete(l.loads, place{turns, Mutex}) // it is no lock of its own
	}
	return q
}

// sortOf returns the family of the node at a path, and reports whether it is a contender that takes part.
func sortOf(path string) (folder string, f family, c contender, ok bool) {
	folder, name := framework.SplitPath(path)
	f, c, ok = parse(name)
	return folder, f, c, ok && !c.isForeign && f.kind.IsLock()
}

func byPlace(t *turn, c contender) int { return compare(t.contender, c) }

// created notes that a node is there.
func (l *ledger) created(path string, now time.Time) {
	if q, _ := l.insert(path, now); q != nil && !l.first {
		q.settle(l, now)
	}
}

func (l *ledger) insert(path string, now time.Time) (*line, *turn) {
	folder, f, c, ok := sortOf(path)
	if !ok {
		return nil, nil
	}
	q := l.lineAt(folder, f.kind, now)
	at, found := slices.BinarySearchFunc(q.turns, c, byPlace)
	if found {
		return q, q.turns[at]
	}
	t := &turn{Turn: Turn{Joined: now, Early: l.first, path: q.Path}, contender: c, came: now}
	q.turns = slices.Insert(q.turns, at, t)
	switch {
	case q.entrance == nil:
	case len(q.entrance.turns) == 0:
		q.grant(t, now)
	default:
		head := q.entrance.turns[0]
		t.Joined, t.Early = head.Joined, t.Early || head.Early
		q.grant(q.pending, now)
		q.pending = t
	}
	return q, t
}

// deleted notes that a node is gone.
func (l *ledger) deleted(path string, now time.Time) {
	if l.gone != nil {
		l.gone[path] = true
	}
	folder, f, c, ok := sortOf(path)
	q := l.lines[place{folder, f.kind}]
	if !ok || q == nil {
		return
	}
	if at, found := slices.BinarySearchFunc(q.turns, c, byPlace); found {
		l.remove(q, at, now)
		if !l.first {
			q.settle(l, now)
		}
	}
}

func (l *ledger) remove(q *line, at int, now time.Time) {
	t := q.turns[at]
	q.turns = slices.Delete(q.turns, at, at+1)
	if p := q.permits; p != nil {
		if t.dead && (at > 0 || p.pending == nil) { // or its permit counts
			p.Losses++
		}
		if at == 0 {
			p.grant(p.pending, now)
			p.pending = nil
		}
		return
	}
	if q.pending == t {
		q.pending = nil
	}
	t.Left, t.Lost = now, t.dead
	if t.dead {
		q.Losses++
	}
	if !t.Granted.IsZero() {
		q.Turns++
		q.keepLong(t.Turn)
		switch {
		case t.sawGrant:
			q.hold.add(now.Sub(t.Granted))
		case q.entrance == nil: // which permits were out at the first look is not certain
			q.hold.open = append(q.hold.open, now.Sub(t.Granted))
		}
	}
	if len(l.past) < maxTurns {
		l.past = append(l.past, t.Turn)
	} else {
		l.past[l.next] = t.Turn
		l.next = (l.next + 1) % maxTurns
	}
}

// grant notes that a contender has the lock. Nil is none.
func (q *line) grant(t *turn, now time.Time) {
	if t == nil || !t.Granted.IsZero() {
		return
	}
	t.Granted, t.sawGrant = now, !t.Early || t.came.Before(now)
	if t.sawGrant {
		q.wait.add(now.Sub(t.Joined))
	}
}

// settle finds out which contenders have the lock, after a change of the queue.
func (q *line) settle(l *ledger, now time.Time) {
	switch {
	case q.permits != nil:
		q.permits.settle(l, now)
		return
	case q.entrance != nil:
		holders := len(q.turns)
		if q.pending != nil {
			holders--
		}
		q.reckon(now, holders, len(q.entrance.turns))
	default:
		var before order
		holders, waiting := 0, 0
		for _, t := range q.turns {
			if before.of(t.contender) < 0 {
				holders++
				q.grant(t, now)
			} else if waiting++; waiting > 1 {
				break // all that follow wait, too
			}
		}
		q.reckon(now, holders, len(q.turns)-holders)
	}
	if len(q.turns) == 0 && (q.entrance == nil || len(q.entrance.turns) == 0) {
		delete(l.lines, place{q.folder, q.Kind})
		if q.entrance != nil {
			delete(l.lines, place{q.entrance.folder, Mutex})
		}
	}
}

// reckon adds the time until now, and says what begins.
func (l *load) reckon(now time.Time, holders, waiters int) {
	passed := now.Sub(l.at)
	l.at = now
	l.waited += time.Duration(l.waiters) * passed
	if l.holders > 0 {
		l.held += passed
	}
	l.holders, l.waiters = holders, waiters
	l.Most = max(l.Most, waiters)
}

func (l *load) keepLong(t Turn) {
	l.longest = append(l.longest, t)
	slices.SortStableFunc(l.longest, func(a, b Turn) int { return cmp.Compare(b.Left.Sub(b.Granted), a.Left.Sub(a.Granted)) })
	l.longest = l.longest[:min(len(l.longest), mostLong)]
}

// looked compares the queues with those that a look has found, which has begun at a time.
func (l *ledger) looked(found []Recipe, isWhole bool, begun, now time.Time) {
	seen := make(map[string]bool)
	for _, r := range found {
		for _, p := range r.Participants {
			if l.gone[p.Path] || !r.Kind.IsLock() { // it has left during the look
				continue
			}
			q, t := l.insert(p.Path, now)
			if q == nil { // its name is not one that Traffic knows
				continue
			}
			seen[p.Path] = true
			t.identify(p)
			t.joinedAt(p.Since, now)
			if l.first && q.entrance != nil && !p.Holds { // its owner waits for this permit, which insert has taken for a hold
				t.Granted, q.pending = time.Time{}, t
			}
		}
	}
	for _, q := range slices.Collect(maps.Values(l.lines)) {
		if isWhole { // another look says nothing of what it lacks
			l.removeUnseen(q, seen, begun, now)
		}
		if l.first && q.pending != nil && len(q.entrance.turns) > 0 { // its owner has waited since it came to the entrance
			q.pending.Joined = q.entrance.turns[0].Joined
		}
		q.settle(l, now)
	}
	l.gone, l.first = nil, false
}

// removeUnseen removes the turns that were there when a look began, and that it has not found.
func (l *ledger) removeUnseen(q *line, seen map[string]bool, begun, now time.Time) {
	for i := len(q.turns) - 1; i >= 0; i-- {
		if t := q.turns[i]; t.came.Before(begun) && !seen[framework.JoinPath(q.folder, t.name)] {
			l.remove(q, i, now)
		}
	}
}

func (t *turn) identify(p locks.Participant) {
	if t != nil && p.Token != 0 && !p.RevocationRequested() {
		t.Owner, t.isRead = Name(p), true
	}
}

// joinedAt notes when an early contender has joined, by the time of its znode.
func (t *turn) joinedAt(since, now time.Time) {
	if t.Early && !since.IsZero() && since.Before(now) {
		t.Joined = since
	}
}

// unread returns the paths of some contenders whose owners are not known, holders first.
func (l *ledger) unread(most int) []string {
	var hold, wait []string
	for _, q := range l.lines {
		for _, t := range q.turns {
			switch {
			case t.isRead:
			case t.Granted.IsZero() && len(wait) < most:
				wait = append(wait, framework.JoinPath(q.folder, t.name))
			case !t.Granted.IsZero() && len(hold) < most:
				hold = append(hold, framework.JoinPath(q.folder, t.name))
			}
		}
	}
	paths := slices.Concat(hold, wait)
	return paths[:min(len(paths), most)]
}

// read notes what the node of a contender says. A node that cannot be read is not tried again.
func (l *ledger) read(path string, data []byte, stat framework.Stat) {
	folder, f, c, _ := sortOf(path)
	q := l.lines[place{folder, f.kind}]
	if q == nil {
		return
	}
	if at, found := slices.BinarySearchFunc(q.turns, c, byPlace); found {
		q.turns[at].isRead = true
		q.turns[at].identify(locks.ParticipantOf(path, c.lockName, data, stat))
	}
}

// mark notes which contenders have clients that do not answer, by the full paths of their nodes.
func (l *ledger) mark(dead map[string]bool, full func(string) string) {
	for _, q := range l.lines {
		for _, t := range q.turns {
			t.dead = len(dead) > 0 && dead[full(framework.JoinPath(q.folder, t.name))]
		}
	}
}

// take returns what has been since the last take, and begins again.
func (l *ledger) take(now time.Time) []Load {
	for _, q := range l.lines {
		q.reckon(now, q.holders, q.waiters)
		for _, t := range q.turns {
			if t.Granted.IsZero() {
				q.wait.open = append(q.wait.open, now.Sub(t.Joined))
				continue
			}
			until := t.Turn
			until.Left = now
			q.keepLong(until)
		}
	}
	var all []Load
	for _, f := range l.loads {
		if f.held > 0 || f.waited > 0 || f.Turns > 0 {
			all = append(all, f.done(now.Sub(l.since)))
		}
	}
	slices.SortFunc(all, func(a, b Load) int {
		return cmp.Or(cmp.Compare(b.Waiters, a.Waiters), cmp.Compare(b.Held, a.Held), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind))
	})
	l.since, l.dropped = now, false
	l.loads = make(map[place]*load)
	for _, q := range l.lines {
		if q.permits != nil {
			continue
		}
		holders, waiters := q.holders, q.waiters
		q.load = l.loadAt(place{q.Path, q.Kind}, now)
		q.reckon(now, holders, waiters)
	}
	return all
}

func (l *load) done(lasted time.Duration) Load {
	r := l.Load
	r.Held, r.Waiters = l.held.Seconds()/lasted.Seconds(), l.waited.Seconds()/lasted.Seconds()
	r.Wait, r.Hold = l.wait.times(), l.hold.times()
	r.Longest = append([]Turn{}, l.longest...)
	for i := range r.Longest {
		if t := &r.Longest[i]; t.Left.Equal(l.at) {
			t.Left = time.Time{} // it goes on
		}
	}
	return r
}

// turnsOf returns the turns at a lock that were there after a time, by when they joined.
func (l *ledger) turnsOf(path string, after time.Time) []Turn {
	var found []Turn
	for _, t := range l.past {
		if t.path == path && t.Left.After(after) {
			found = append(found, t)
		}
	}
	for _, q := range l.lines {
		of := q
		if q.permits != nil {
			of = q.permits
		}
		for i, t := range q.turns {
			if of.Path == path && (i > 0 || of == q || of.pending == nil) {
				found = append(found, t.Turn)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Turn) int {
		return cmp.Or(a.Joined.Compare(b.Joined), orLater(a.Left).Compare(orLater(b.Left)), orLater(a.Granted).Compare(orLater(b.Granted)))
	})
	return found
}

// orLater puts what has not come yet after all that has.
func orLater(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return t
}

// spread counts times in classes that are two hundredths wide.
type spread struct {
	counts map[int]int
	n      int
	max    time.Duration
	open   []time.Duration // least values, of what goes on or had begun before
}

// width is the logarithm of how much longer each class is than the one before.
var width = math.Log(1.02)

func (s *spread) add(d time.Duration) {
	if s.counts == nil {
		s.counts = make(map[int]int)
	}
	s.counts[int(math.Log(float64(max(d, 1)))/width)]++
	s.n++
	s.max = max(s.max, d)
}

// at returns the time that a share of all does not exceed, in seconds.
func (s *spread) at(share float64) float64 {
	left := int(math.Ceil(share * float64(s.n)))
	for _, class := range slices.Sorted(maps.Keys(s.counts)) {
		if left -= s.counts[class]; left <= 0 {
			return min(math.Exp((float64(class)+0.5)*width), float64(s.max)) / float64(time.Second)
		}
	}
	return 0
}

// times counts a least value only if it is above all others: a shorter one says nothing.
func (s *spread) times() Times {
	known, isLeast := s.max, false
	for _, d := range s.open {
		if d > known {
			s.add(d)
			isLeast = true
		}
	}
	return Times{s.n, s.at(0.5), s.at(0.99), s.max.Seconds(), isLeast}
}
