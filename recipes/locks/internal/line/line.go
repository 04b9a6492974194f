// SPDX-License-Identifier: Apache-2.0

package line

import (
	"slices"
	"strings"
	"sync"
)

// Sorter says which names contend, and in which order.
type Sorter interface {
	// Contends reports whether the node with this name is a contender.
	Contends(name string) bool

	// Compare orders two contenders: negative when a is before b.
	Compare(a, b string) int
}

// Numberer is an optional interface of a [Sorter] that orders names by the numbers that the
// server has appended to them. Without it a line learns from lists only.
type Numberer interface {
	// Number returns the number of a contender.
	Number(name string) (int32, bool)
}

// Shrinker is an optional interface of a [Sorter]. Without it no newcomer stands in the place
// of a contender that leaves.
type Shrinker interface {
	// Shrinks reports whether the departure of this contender proves that its place is free.
	Shrinks(name string) bool
}

// Line is what one client knows about the contenders in one folder. It is safe for
// concurrent use. It calls its sorter under its mutex, so the sorter must not call it.
type Line struct {
	sorter Sorter

	mu      sync.Mutex
	history int64
	horizon int64             // the transaction of the package's comment; 0 if there is none
	last    serial            // the newest number up to the horizon that this client was given
	link    any               // the connection over which the horizon was learned
	names   []string          // in order; a part that was returned never changes
	own     []*Place          // in order; each has its name in names
	left    []string          // our own that have left with proof, and may still be listed
	unsure  int               // how many of names, from the first, may have left unnoticed
	moments int               // how many there were
	misses  int               // how many neighbours it takes until creating without a list pays
	data    map[string]string // of contenders of other clients that were read
	tries   []*Try
	joining int // places that have not joined
	waiting int // places that are not granted, those with them
	lists   lists
}

// serial is a sequence number with the creation for which the server gave it; zero if there is none.
type serial struct {
	number int32
	czxid  int64
}

// moment is when a request was about to be sent.
type moment struct {
	count   int   // of moments, with this one
	horizon int64 // of the line
}

// now returns this moment.
func (l *Line) now() moment {
	l.moments++
	return moment{l.moments, l.horizon}
}

// New returns a line that shares nothing.
func New(sorter Sorter) *Line { return &Line{sorter: sorter} }

// Node describes a node that this client has created.
type Node struct {
	Name    string
	Czxid   int64
	History int64    // of its creation; 0 if it is not known
	Moved   bool     // it takes the place of another node, and has its number
	List    []string // all names in the folder, read after the creation; nil if they were not
	Link    any      // the connection of both; nil if it is not known
}

// Place is a contender of this client, from before it joins a line until it leaves.
type Place struct {
	Owner any
	Data  []byte // of its node

	line    *Line
	name    string
	czxid   int64
	link    any    // the newest connection over which the server has shown the node; nil if it is not known
	began   moment // before the creation was sent
	seen    int    // the newest moment when the place joined
	moved   bool
	joined  bool
	granted bool
	over    bool                         // it has left
	wakes   map[chan<- struct{}]struct{} // each gets a value when it leaves
}

// Name returns the name of the contender's node.
func (p *Place) Name() string { return p.name }

// NewPlace returns a place for a node that is about to be created. The caller lets it leave in
// any case.
func (l *Line) NewPlace() *Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.joining++
	l.waiting++
	return &Place{line: l, began: l.now()}
}

// Join adds the place to the line, as its node was created.
func (p *Place) Join(n Node) {
	p.name, p.czxid, p.link, p.moved = n.Name, n.Czxid, n.Link, n.Moved
	// The place comes first, as other acquisitions of this client may find its name in lists.
	p.line.enter(p, n.History)
	if n.List != nil {
		p.line.learnFrom(p, n)
	}
}

// learnFrom learns the list that was read after the creation of the node of a place.
func (l *Line) learnFrom(p *Place, n Node) {
	listed := l.Sorted(n.List)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heed(n.History) {
		l.learn(listed, n.Czxid, n.Link, p.began)
	}
}

// enter adds a place, and moves the horizon to it if it is a neighbour.
func (l *Line) enter(p *Place, history int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.joining--
	p.joined, p.seen = true, l.moments
	current := l.heed(history)
	i, known := l.find(l.names, p.name)
	if current && !known && p.czxid <= l.horizon {
		return // a list has shown that it is gone: see Before
	}
	at, _ := l.findOwn(p.name)
	l.own = slices.Insert(l.own, at, p)
	switch {
	case known:
	case i == len(l.names):
		l.names = append(l.names, p.name) // in no part that was returned
	default:
		l.names = slices.Concat(l.names[:i], []string{p.name}, l.names[i:])
	}
	l.advance(at)
}

// advance moves the horizon to the place with this index, and on to the places behind it, as
// long as each is a neighbour of the place before.
func (l *Line) advance(first int) {
	for _, p := range l.own[first:] {
		number, numbered := l.number(p.name)
		// Over another connection it may be a node of restored servers, which need not give a sign.
		if !numbered || p.moved || p.link != l.link {
			return
		}
		if p.czxid > l.horizon {
			if !l.isNeighbour(number, p.czxid) {
				return
			}
			l.horizon = p.czxid
			l.misses = max(l.misses-1, 0)
		}
		l.last = l.last.or(number, p.czxid)
	}
}

// isNeighbour reports whether the server has given a node the next number after the last one, in
// the same folder.
func (l *Line) isNeighbour(number int32, czxid int64) bool {
	after := czxid - l.last.czxid // at least the number of transactions between the two
	return l.last.czxid != 0 && number == l.last.number+1 && after < int64(number)+2
}

// or returns the newer one of two.
func (s serial) or(number int32, czxid int64) serial {
	if czxid > s.czxid {
		return serial{number, czxid}
	}
	return s
}

// neighbours is the number of neighbours after a miss until a node is created without a list
// again. A list in the same write as the creation costs the server work. A list after the
// creation, which is a miss, costs a round trip.
const neighbours = 2

// Alone reports whether the node of the place, which has not joined, is likely to be a
// neighbour over this connection. Then a list together with its creation would say nothing new.
func (p *Place) Alone(link any) bool {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	// A name without a place may be the name of our node whose place is about to join.
	return l.last.czxid != 0 && l.link == link && len(l.names)-len(l.own) < l.joining && l.misses == 0
}

// Granted says that the contender does not wait any more, and holds.
func (p *Place) Granted() {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	p.granted = true
	l.waiting--
	l.trim()
}

// heed takes a history into account: if it is newer than the line's, the line forgets its
// names. heed reports whether the line is of this history.
func (l *Line) heed(history int64) bool {
	if history > l.history {
		l.forget()
		l.history = history
	}
	return history == l.history && history != 0
}

// forget drops all names and the horizon, and keeps the places of this client.
func (l *Line) forget() {
	l.horizon, l.last, l.left, l.unsure, l.data = 0, serial{}, nil, 0, nil
	l.names = make([]string, len(l.own))
	for i, p := range l.own {
		l.names[i] = p.name
	}
}

// learn replaces the names of the line by a list of the contenders, in order. The list shows
// each contender that was created up to a transaction. A list that is older than the horizon is
// dropped, if it may have been sent before the horizon was learned.
func (l *Line) learn(listed []string, zxid int64, link any, sent moment) {
	for _, p := range l.own {
		if l.contains(listed, p.name) {
			zxid, p.link = max(zxid, p.czxid), link
		}
	}
	switch {
	case link != l.link:
		l.last = serial{} // its transaction may be lost, unless the list shows the node
	case sent.horizon <= zxid && zxid < l.horizon:
		return
	}
	gone := func(p *Place) bool {
		return (p.czxid <= zxid || p.seen < sent.count) && !l.contains(listed, p.name)
	}
	if slices.ContainsFunc(l.own, gone) {
		l.own = slices.DeleteFunc(slices.Clone(l.own), gone)
	}
	l.left = slices.DeleteFunc(l.left, func(name string) bool { return !l.contains(listed, name) })
	names := slices.Clip(listed) // callers have it, too: what follows copies before it changes
	for _, name := range l.left {
		i, _ := l.find(names, name)
		names = slices.Concat(names[:i], names[i+1:])
	}
	for _, p := range l.own {
		if i, found := l.find(names, p.name); !found { // it is newer than the list
			names = slices.Insert(names, i, p.name)
		}
	}
	l.names, l.horizon, l.unsure, l.link = names, zxid, 0, link
	for _, p := range l.own {
		if number, numbered := l.number(p.name); numbered && !p.moved && p.czxid <= zxid {
			l.last = l.last.or(number, p.czxid)
		}
	}
	if i := slices.IndexFunc(l.own, func(p *Place) bool { return p.czxid > zxid }); i >= 0 {
		l.advance(i) // created after the list
	}
	for name := range l.data {
		if !l.contains(names, name) {
			delete(l.data, name)
		}
	}
}

// Before returns the contenders up to this place. It reports false if some may be unknown.
// If the node of the place is known to be gone, its name is not among them. The caller must
// not change them.
func (p *Place) Before() (contenders []string, known bool) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := l.find(l.names, p.name)
	if found {
		i++
	}
	if _, ours := l.findOwn(p.name); !ours {
		return l.names[:i:i], true
	}
	return l.names[:i:i], p.link == l.link && p.czxid <= l.horizon
}

// Wake has a value sent to a channel when the place leaves, at once if it has left, unless the
// channel is full.
func (p *Place) Wake(wake chan<- struct{}) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case p.over:
		poke(wake)
	case p.wakes == nil:
		p.wakes = map[chan<- struct{}]struct{}{wake: {}}
	default:
		p.wakes[wake] = struct{}{}
	}
}

// Unwake takes back a call of Wake.
func (p *Place) Unwake(wake chan<- struct{}) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(p.wakes, wake)
}

func poke(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Over reports whether the place has left.
func (p *Place) Over() bool {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.over
}

// Leave removes the place. With proof its contender is known to be over. Otherwise the name
// stays, as the name of another client's contender does.
func (p *Place) Leave(proof bool) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.over {
		return
	}
	if !p.joined {
		l.joining--
	}
	if !p.granted {
		l.waiting--
	}
	if i := slices.Index(l.own, p); i >= 0 {
		l.own = slices.Delete(l.own, i, i+1)
		if proof {
			l.remove(p.name)
		}
		if proof && l.waiting > 0 {
			// An older one is worth no memory: listed after all, it costs a watch.
			l.left = append(l.left[max(0, len(l.left)+1-maxLeft):], p.name)
		}
	}
	l.trim()
	// Last: a waiter that wakes up must not find the place.
	for wake := range p.wakes {
		poke(wake)
	}
	p.over, p.wakes = true, nil
}

// maxLeft is how many of our own contenders that have left a line remembers.
const maxLeft = 64

// trim drops names that no place needs. A client may hold a lock for long while many
// contenders of other clients wait.
func (l *Line) trim() {
	switch {
	case l.waiting > 0:
	case len(l.names) > len(l.own):
		l.forget() // the next node is created together with a list in any case
	default:
		l.left = nil
	}
}

// Left removes a contender whose node is known to be deleted, by a watch. If another contender
// may stand in its place, the name stays until a list shows who does, and Left reports false.
func (l *Line) Left(name string) (removed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, known := l.find(l.names, name)
	if !known {
		return true
	}
	shrinker, ok := l.sorter.(Shrinker)
	if ok && !shrinker.Shrinks(name) {
		l.unsure = max(l.unsure, i+1)
		return false
	}
	l.unsure = max(l.unsure, i) // the contenders before it perhaps had no watch
	l.remove(name)
	return true
}

func (l *Line) remove(name string) {
	i, found := l.find(l.names, name)
	if !found {
		return
	}
	if i < l.unsure {
		l.unsure--
	}
	if i == 0 {
		l.names = l.names[1:]
	} else {
		l.names = slices.Concat(l.names[:i], l.names[i+1:])
	}
}

// Unsure returns the contenders that may have left unnoticed. The caller must not change them.
func (l *Line) Unsure() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[:l.unsure:l.unsure]
}

// Len returns the number of contenders that are known.
func (l *Line) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.names)
}

// Own returns the places of this client, in order.
func (l *Line) Own() []*Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.own)
}

// Place returns the place of this client with that name, or nil.
func (l *Line) Place(name string) *Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, found := l.findOwn(name); found {
		return l.own[i]
	}
	return nil
}

// Previous returns the nearest place of this client before a name, or nil.
func (l *Line) Previous(name string) *Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, _ := l.findOwn(name); i > 0 {
		return l.own[i-1]
	}
	return nil
}

// Crowd returns the number of places, including places that have not joined yet.
func (l *Line) Crowd() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.joining + len(l.own)
}

// Seen reports whether the horizon was learned over this connection.
func (l *Line) Seen(link any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.link == link
}

// NoteData keeps the data of a contender of another client.
func (l *Line) NoteData(name string, data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data == nil {
		l.data = make(map[string]string)
	}
	l.data[strings.Clone(name)] = string(data)
}

// Data returns the data of a contender, if it is known.
func (l *Line) Data(name string) (data string, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, found := l.findOwn(name); found {
		return string(l.own[i].Data), true
	}
	data, known = l.data[name]
	return data, known
}

// compare orders names that the sorter takes for equal as text: each name has a place of its own.
func (l *Line) compare(a, b string) int {
	if order := l.sorter.Compare(a, b); order != 0 {
		return order
	}
	return strings.Compare(a, b)
}

func (l *Line) find(sorted []string, name string) (int, bool) {
	return slices.BinarySearchFunc(sorted, name, l.compare)
}

func (l *Line) contains(sorted []string, name string) bool {
	_, found := l.find(sorted, name)
	return found
}

func (l *Line) findOwn(name string) (int, bool) {
	return slices.BinarySearchFunc(l.own, name, func(p *Place, name string) int { return l.compare(p.name, name) })
}

func (l *Line) number(name string) (int32, bool) {
	if numberer, ok := l.sorter.(Numberer); ok {
		return numberer.Number(name)
	}
	return 0, false
}

// Sorted returns the contenders among names, in order. It does not change names, and may
// return them.
func (l *Line) Sorted(names []string) []string {
	if len(names) == 1 && l.sorter.Contends(names[0]) {
		return names
	}
	contenders := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !l.sorter.Contends(name) })
	slices.SortFunc(contenders, l.compare)
	return contenders
}
