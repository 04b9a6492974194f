// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks/internal/identity"
)

// gate is the goroutines of one client that want one lock. A few of them have a node in the queue: the
// holder, and those whose nodes are there before the holder leaves. The others wait here, in the order of
// their calls, and cost the servers nothing. It also knows the nodes of this client, and so which of them
// follows directly on which; see place.follows.
type gate struct {
	mu       sync.Mutex
	inside   int           // goroutines that may have a node
	waiting  []*waiter     // for a place inside, in the order of their calls
	nodes    []*place      // those in the queue, and the last that have left, as a list may show them yet; the newest last
	left     int           // how many of them have left
	last     *place        // of the newest node that the server has numbered
	misses   int           // how many neighbours it takes until a creation without a list pays again
	creating int           // creations under way
	created  chan struct{} // closed at the end of the next one; nil before it is needed
	others   bool          // the last list has shown contenders of other clients
	listed   time.Time     // when the newest list was sent
	pace     time.Duration // of the last turns in the queue; 0 if it is not known
}

// waiter is a goroutine that waits for a place inside.
type waiter struct {
	l    *lock
	turn chan *hold // gets a hold in a row with another, or nil when the goroutine may make a node
}

// gateKey distinguishes the queues of a client.
type gateKey struct {
	client    weak.Pointer[framework.Framework] // without namespace; weak, as a listener of the client may refer to a lock, and so to the gate
	path      string                            // of the folder, at the server
	queue     queueDriver                       // zero unless exclusive; no driver of a user, which may refer to its client
	exclusive bool
}

// gates has the gates that are in use. A gate lives as long as a lock refers to it.
var gates = struct {
	sync.Mutex
	byKey map[gateKey]weak.Pointer[gate]
}{byKey: make(map[gateKey]weak.Pointer[gate])}

// gateOf returns the gate that the locks with this key share.
func gateOf(key gateKey) *gate {
	gates.Lock()
	defer gates.Unlock()
	if g := gates.byKey[key].Value(); g != nil {
		return g
	}
	g := new(gate)
	gates.byKey[key] = weak.Make(g)
	runtime.AddCleanup(g, forgetGate, key)
	return g
}

func forgetGate(key gateKey) {
	gates.Lock()
	defer gates.Unlock()
	if gates.byKey[key].Value() == nil { // another gate may have taken its place
		delete(gates.byKey, key)
	}
}

// hasPlace reports whether one goroutine more may have a node. The caller holds g.mu.
func (g *gate) hasPlace(l *lock) bool {
	switch {
	case l.cfg.places > 0:
		return g.inside < l.cfg.places
	case g.others: // each place of ours is one more name in the lists of the others
		return g.inside < placesBesideOthers
	default:
		return g.inside < placesAlone
	}
}

// enter waits until the caller may make a node, or gets a hold. It returns a *NotAcquiredError for a
// try that others of this client are before, and when the context ends.
func (g *gate) enter(ctx context.Context, l *lock, wait bool) (*hold, error) {
	g.mu.Lock()
	before := g.inside + len(g.waiting)
	switch {
	case !l.exclusive || before == 0, // others of this client need not be in the way
		wait && ctx.Err() == nil && len(g.waiting) == 0 && g.hasPlace(l):
		g.inside++
		g.mu.Unlock()
		return nil, nil //nolint:nilnil // the caller makes a node
	case !wait:
		defer g.mu.Unlock()
		return nil, g.inTheWay(l, before, nil)
	case ctx.Err() != nil:
		defer g.mu.Unlock()
		return nil, g.inTheWay(l, before, ended(ctx))
	}
	w := &waiter{l, make(chan *hold, 1)}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	l.tell(func(o observer) { o.queued(ctx, "", before) })
	return g.await(ctx, w)
}

// await waits for the turn of a waiter.
func (g *gate) await(ctx context.Context, w *waiter) (*hold, error) {
	warning := time.AfterFunc(ownWait, func() { g.warnOfHolder(w.l) })
	defer warning.Stop()
	select {
	case h := <-w.turn:
		return h, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	if i := slices.Index(g.waiting, w); i >= 0 {
		defer g.mu.Unlock()
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return nil, g.inTheWay(w.l, g.inside+i, ended(ctx))
	}
	err := g.inTheWay(w.l, max(g.inside-1, 1), ended(ctx))
	g.mu.Unlock()
	// The turn came together with the end of the context: give it to the next goroutine.
	if h := <-w.turn; h != nil {
		h.start(ctx)
		return nil, joined(err, unsettled(h.leave(ctx)))
	}
	g.leave()
	return nil, err
}

// leave gives a place inside back, and lets waiters in.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	for len(g.waiting) > 0 && g.hasPlace(g.waiting[0].l) {
		g.inside++
		g.waiting[0].turn <- nil
		g.waiting = g.waiting[1:]
	}
}

// inTheWay returns the error of a goroutine behind others of its client. The caller holds g.mu.
func (g *gate) inTheWay(l *lock, before int, cause error) *NotAcquiredError {
	e := &NotAcquiredError{Position: before, path: l.path, lockName: l.lockName, cause: cause}
	inTheWay := slices.DeleteFunc(slices.Clone(g.nodes), func(p *place) bool { return p.over })
	slices.SortFunc(inTheWay, func(p, q *place) int { return l.compare(p.name, q.name) })
	for _, p := range inTheWay {
		e.ahead, e.identities = append(e.ahead, p.name), append(e.identities, string(p.l.cfg.data))
	}
	e.local = len(e.ahead) == 0
	return e
}

// place is a node of this client in the queue, as the others of this client see it, from its creation
// until it has left. It leaves before its node is deleted, so others need not ask the server.
type place struct {
	l      *lock // that it was made for
	name   string
	warned atomic.Bool // the log says that this process waits for its own hold
	number int32
	czxid  int64
	at     instant // of its creation; without a connection if the server has not numbered it, or it is not known

	created time.Time // when the reply to the creation came

	// Guarded by the mutex of the gate.
	granted time.Time     // zero while it waits
	first   bool          // it had the lock as the first in the queue, so all before it had left
	over    bool          // it has left
	gone    chan struct{} // closed when it has left; nil before it is needed
}

// follows reports whether the server has created no other node of the folder between two places.
//
// The server counts each child of a folder, whatever its mode, and names a sequential node for the count before it.
// Both numbers were given by the server, since a name that was made by hand proves nothing. So the two nodes are
// neighbours, if they are in the same folder. Numbers begin at 0 again when a folder was deleted and made again.
// To come to our number, the new folder takes the deletion, the creation, and the children before ours: each
// is a transaction of its own, and the difference of two transaction numbers is an upper bound for their count. If fewer lie
// between the two, the folder is the same. Transactions compare within one history of the servers. Restored servers may give
// no sign, but each connection is to one world.
func (p *place) follows(before *place) bool {
	return before != nil && p.at.link != nil && p.number == before.number+1 &&
		p.czxid > before.czxid && p.czxid-before.czxid < int64(p.number)+2 &&
		p.at.link == before.at.link && p.at.history == before.at.history
}

// begin notes that a node is about to be created. The caller calls end when the outcome is known.
func (g *gate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.creating++
}

// end ends a creation, with its place if there is one.
func (g *gate) end(p *place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.creating--
	if g.created != nil {
		close(g.created)
		g.created = nil
	}
	if p == nil {
		return
	}
	g.nodes = append(g.nodes, p)
	if p.at.link != nil && (g.last == nil || p.at != g.last.at || p.czxid > g.last.czxid) { // transactions compare within a history
		g.last = p
	}
}

// expectsNeighbour reports whether the next node over this connection probably needs no list: it will follow directly on the
// last one, or wait for it.
func (g *gate) expectsNeighbour(link context.Context) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	// After a miss a list comes with the creation, which costs the server work. A list after the creation costs a round trip.
	return g.last != nil && g.last.at.link == link && time.Since(g.listed) < chainDelay && (g.misses == 0 || !g.last.over)
}

// neighbour returns the place that p follows directly, or the nearest one of this client that stands before p. If neither is
// known, but a node is being created that may be the first, it returns a channel that is closed when it was. The order
// in which replies reach their goroutines does not matter.
func (g *gate) neighbour(p *place, mayWait bool) (before *place, pending <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, other := range slices.Backward(g.nodes) {
		if other != p && p.follows(other) {
			g.misses = max(g.misses-1, 0)
			return other, nil
		}
	}
	if g.creating > 0 && mayWait {
		if g.created == nil {
			g.created = make(chan struct{})
		}
		return nil, g.created
	}
	g.misses = neighboursAfterMiss
	for _, other := range g.nodes {
		if other != p && !other.over && other.czxid < p.czxid && other.at.history == p.at.history && (before == nil || other.czxid > before.czxid) {
			before = other
		}
	}
	return before, nil
}

// underWay returns how many creations are under way.
func (g *gate) underWay() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.creating
}

// own returns the place of this client with a name that has not been forgotten, or nil.
func (g *gate) own(name string) *place {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range slices.Backward(g.nodes) {
		if p.name == name {
			return p
		}
	}
	return nil
}

// noteList notes the contenders of a list that was sent at a time.
func (g *gate) noteList(l *lock, contenders []string, sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !l.exclusive || sent.Before(g.listed) {
		return
	}
	g.listed = sent
	others := len(contenders) - g.creating // a node whose creation is under way may be listed already
	for _, p := range slices.Backward(g.nodes) {
		if others <= 0 {
			break
		}
		if l.isAmong(contenders, p.name) {
			others--
		}
	}
	g.others = others > 0
}

// notePace notes that this many contenders have left between two lists of an acquisition.
func (g *gate) notePace(left int, between time.Duration) {
	if left <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	pace := between / time.Duration(left)
	if g.pace > 0 { // one turn says little
		pace = (g.pace + pace) / 2
	}
	g.pace = pace
}

// paceOfTurns returns about how long a turn in the queue takes now, 0 if it is not known.
func (g *gate) paceOfTurns() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pace
}

// wasListedLately reports whether a list was sent in the last second.
func (g *gate) wasListedLately() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Since(g.listed) < chainDelay
}

// whenGone returns a channel that is closed when the place has left.
func (p *place) whenGone() <-chan struct{} {
	p.l.gate.mu.Lock()
	defer p.l.gate.mu.Unlock()
	if p.gone == nil {
		p.gone = make(chan struct{})
		if p.over {
			close(p.gone)
		}
	}
	return p.gone
}

// holds notes that the place has the lock, as the first in the queue or as one of several.
func (p *place) holds(first bool) {
	p.l.gate.mu.Lock()
	defer p.l.gate.mu.Unlock()
	p.first, p.granted = first, time.Now()
}

// wasFirst reports whether the place has left and had the lock as the first in the queue.
func (p *place) wasFirst() bool {
	p.l.gate.mu.Lock()
	defer p.l.gate.mu.Unlock()
	return p.over && p.first
}

func (p *place) hasLeft() bool {
	p.l.gate.mu.Lock()
	defer p.l.gate.mu.Unlock()
	return p.over
}

// leave tells the contenders of this client that the place neither holds the lock nor will.
func (p *place) leave() {
	g := p.l.gate
	g.mu.Lock()
	if p.over {
		g.mu.Unlock()
		return
	}
	p.over = true
	if g.left++; g.left > remembered {
		oldest := slices.IndexFunc(g.nodes, func(p *place) bool { return p.over })
		g.nodes = slices.Delete(g.nodes, oldest, oldest+1)
		g.left--
	}
	if p.gone != nil {
		close(p.gone)
	}
	g.mu.Unlock()
}

// ownWait is how long an acquisition waits for a hold of its own client before the log says so: the caller may have
// meant to re-enter the lock.
const ownWait = 10 * time.Second

// warnOfHolder logs that this client waits for its own hold, once for each hold.
func (g *gate) warnOfHolder(l *lock) {
	h := g.unwarnedHolder()
	if h == nil || !l.reenters || h.warned.Swap(true) {
		return
	}
	_, _, label := identity.Parse(string(h.l.cfg.data))
	l.client.Logger().Warn("waiting for a lock that this process holds itself: to re-enter it, acquire it with the context of its lease",
		string(keyPath), l.path, "holder", framework.JoinPath(l.path, h.name), "label", label,
		"waiting", ownWait, "held", time.Since(h.granted).Round(time.Second))
}

// unwarnedHolder returns a hold of this client, if the log has not said yet that others wait for it.
func (g *gate) unwarnedHolder() *place {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.nodes {
		if !p.over && !p.granted.IsZero() && !p.warned.Load() {
			return p
		}
	}
	return nil
}
