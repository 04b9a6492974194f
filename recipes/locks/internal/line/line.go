package line

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"
)

// Sorter says which names contend, and in which order.
type Sorter interface {
	Contends(name string) bool
	Compare(a, b string) int
}

// Reuser is an optional interface of a [Sorter] whose contenders may have a number that is
// not their own. A list shows such a contender although the horizon covers its number.
type Reuser interface {
	// Reuses reports whether the contender with this name may have such a number.
	Reuses(name string) bool
}

// Numberer is an optional interface of a [Sorter] whose contenders are in the order of the
// numbers that the server has appended to their names. Without it a line learns from lists
// only.
type Numberer interface {
	Number(name string) (int32, bool)
}

// Line is what one client knows of the contenders in one folder. It is safe for concurrent
// use. It calls its sorter under its mutex, so the sorter must not call it.
type Line struct {
	sorter Sorter

	mu       sync.Mutex
	names    []string // contenders that may exist, in order; a part that was returned never changes
	own      []*Place // in order
	horizon  string   // all contenders up to this one are in names; "" if unknown
	evidence evidence
	unproven bool // a node has joined since the last list that may be in another folder
	unsure   int  // how many of names, from the first, may have left unnoticed
	misses   int  // how many neighbours it takes until creating without a list pays
	folder   uint64
	ticks    uint64
	data     map[string]string // of contenders of other clients that were read
	tries    []*Try
	users    int
	link     any // see Seen
	lists    lists
}

// evidence is a node that is known to be in the folder, or to have been.
type evidence struct {
	name   string // "" if there is none
	number int32
	czxid  int64
}

// lines has the lines that something refers to.
var lines = struct {
	sync.Mutex
	byKey map[any]weak.Pointer[Line]
}{byKey: make(map[any]weak.Pointer[Line])}

// Of returns the line with this key. It lives as long as something refers to it.
func Of(key any, sorter Sorter) *Line {
	lines.Lock()
	defer lines.Unlock()
	if l := lines.byKey[key].Value(); l != nil {
		return l
	}
	l := New(sorter)
	lines.byKey[key] = weak.Make(l)
	runtime.AddCleanup(l, forget, key)
	return l
}

func forget(key any) {
	lines.Lock()
	defer lines.Unlock()
	if lines.byKey[key].Value() == nil { // another one may have taken its place
		delete(lines.byKey, key)
	}
}

// New returns a line that shares nothing.
func New(sorter Sorter) *Line { return &Line{sorter: sorter} }

// Place is a contender of this client.
type Place struct {
	Owner any
	Data  string // of its node

	line   *Line
	name   string
	moved  bool   // its number is not its own
	joined uint64 // tick
}

// Name returns the name of the contender's node.
func (p *Place) Name() string { return p.name }

// Tick returns a number above all that the line has returned before.
func (l *Line) Tick() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ticks++
	return l.ticks
}

// Alone reports whether the next node is likely to be a neighbour, so that a list together
// with its creation would say nothing new.
func (l *Line) Alone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.evidence.name != "" && l.horizon != "" && len(l.names) == len(l.own) && l.misses == 0
}

// neighbours is how many neighbours in a row follow a miss before a node is created without
// a list again. A list that leaves with the creation costs the server work; one that turns
// out to be needed afterwards costs a round trip.
const neighbours = 2

// Newcomer is a node that a client has created.
type Newcomer struct {
	Place

	Czxid int64
	Moved bool     // its number is not its own
	Began uint64   // a tick before the creation
	List  []string // the names in the folder, read after the creation; nil if they were not
}

// Join adds a place for a new node of this client.
func (l *Line) Join(name string, n Newcomer) *Place {
	p := &n.Place
	p.line, p.name, p.moved = l, name, n.Moved
	folder, stale := l.enroll(p, n)
	if n.List == nil || stale {
		return p
	}
	listed := l.sorted(n.List) // after the place is there, as others look for it
	l.mu.Lock()
	defer l.mu.Unlock()
	if folder != l.folder && !(l.evidence.name != "" && l.contains(listed, l.evidence.name)) {
		return p
	}
	l.learn(listed, n.Began)
	if i, ours := l.find(name); ours && !l.contains(listed, name) {
		l.own = slices.Delete(l.own, i, i+1)
		l.remove(name)
	}
	return p
}

// enroll adds a place without its list. It returns the folder that the list is of, and
// whether the node is older than what is known.
func (l *Line) enroll(p *Place, n Newcomer) (folder uint64, stale bool) {
	name := p.name
	l.mu.Lock()
	defer l.mu.Unlock()
	i, known := slices.BinarySearchFunc(l.names, name, l.sorter.Compare)
	at, _ := slices.BinarySearchFunc(l.own, p, l.comparePlaces)
	l.ticks++
	p.joined = l.ticks
	if !n.Moved && !known {
		stale = l.arrive(name, n.Czxid, n.List != nil)
		i, _ = slices.BinarySearchFunc(l.names, name, l.sorter.Compare)
		at, _ = slices.BinarySearchFunc(l.own, p, l.comparePlaces)
	}
	if number, ok := l.number(name); ok && !n.Moved && !stale && n.Czxid > l.evidence.czxid {
		l.evidence = evidence{name, number, n.Czxid}
	}
	l.own = slices.Insert(l.own, at, p)
	switch {
	case known:
	case i == len(l.names):
		l.names = append(l.names, name) // in no part that was returned
	default:
		l.names = slices.Concat(l.names[:i], []string{name}, l.names[i:])
	}
	return l.folder, stale
}

// arrive draws conclusions from the number of a new node. It reports whether the node is
// older than what is known, and so of a folder that is gone.
func (l *Line) arrive(name string, czxid int64, listed bool) (stale bool) {
	number, ok := l.number(name)
	e := l.evidence
	neighbour := false
	switch {
	case e.name != "" && czxid <= e.czxid && (!ok || l.covers(name) || number-e.number > 0):
		l.reset()
		return true
	case l.covers(name):
		l.reset()
		// The first child of a new folder. Before it wraps a counter is negative.
		if ok && number == 0 && e.name != "" && e.number >= 0 {
			l.horizon, neighbour = name, true
		}
	case ok && l.follows(number, czxid):
		last, known := l.number(l.horizon)
		if neighbour = known && number == last+1; neighbour {
			l.horizon = name
		}
	default: // perhaps another folder
		l.folder++
		l.unproven = true
	}
	switch {
	case neighbour:
		l.misses = max(l.misses-1, 0)
	case !listed || l.misses > 0 || e.name != "":
		l.misses = neighbours
	}
	return false
}

// follows reports whether a node with this number and czxid is certain to be in the folder
// of the evidence.
func (l *Line) follows(number int32, czxid int64) bool {
	const epoch = 32
	after := czxid - l.evidence.czxid
	return l.evidence.name != "" && number > 0 &&
		czxid>>epoch == l.evidence.czxid>>epoch && after > 0 && after < int64(number)+2
}

// covers reports whether the horizon covers the number of a name.
func (l *Line) covers(name string) bool {
	if l.horizon == "" {
		return false
	}
	number, ok := l.number(name)
	last, known := l.number(l.horizon)
	if ok && known {
		return number-last <= 0 // a serial number, which wraps
	}
	return l.sorter.Compare(name, l.horizon) <= 0
}

// reset drops all that is known of the folder, except for our own places.
func (l *Line) reset() {
	l.folder++
	l.horizon, l.evidence, l.unsure, l.data = "", evidence{}, 0, nil
	l.names = make([]string, len(l.own))
	for i, p := range l.own {
		l.names[i] = p.name
	}
}

// Doubt drops the evidence, as a node of ours was found to be gone: the folder may be too.
func (l *Line) Doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.evidence = evidence{}
	l.folder++
}

// Before returns the contenders up to this place, without it if its node is known to be gone.
// It reports false if some may be unknown. The caller must not change them.
func (p *Place) Before() (contenders []string, known bool) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := slices.BinarySearchFunc(l.names, p.name, l.sorter.Compare)
	if found {
		i++
	}
	if _, ours := l.find(p.name); !ours {
		return l.names[:i:i], true
	}
	return l.names[:i:i], l.horizon != "" && l.sorter.Compare(p.name, l.horizon) <= 0
}

// Known returns the contenders before this place as far as they are known.
func (p *Place) Known() []string {
	names, _ := p.Before()
	if n := len(names); n > 0 && names[n-1] == p.name {
		return names[: n-1 : n-1]
	}
	return names
}

// Leave removes the place. If that does not prove that its node is gone, the name stays as
// a contender of another client would.
func (p *Place) Leave(proof bool) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.own, p); i >= 0 {
		l.own = slices.Delete(l.own, i, i+1)
		if proof {
			l.remove(p.name)
		}
	}
	l.settle()
}

// settle drops what no place needs: the next node is listed together with others in any case.
func (l *Line) settle() {
	if len(l.own) == 0 && len(l.names) > 0 {
		l.reset()
	}
}

// Left removes a contender whose node is known to be deleted.
func (l *Line) Left(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(name)
}

func (l *Line) remove(name string) {
	i, found := slices.BinarySearchFunc(l.names, name, l.sorter.Compare)
	switch {
	case !found:
	case i == 0:
		l.names = l.names[1:]
		l.unsure = max(l.unsure-1, 0)
	default:
		// It was watched, the contenders before it perhaps not.
		l.names = slices.Concat(l.names[:i], l.names[i+1:])
		l.unsure = max(l.unsure-1, i)
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

// Enter counts an acquisition that has begun. The function that it returns ends it.
func (l *Line) Enter() (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.users--
	}
}

// Saw notes the connection over which a list was made.
func (l *Line) Saw(link any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.link = link
}

// Seen reports whether the newest list was made over this connection.
func (l *Line) Seen(link any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.link == link
}

// Crowd returns the number of acquisitions that have begun, and of places. An acquisition
// that waits at its place counts as two.
func (l *Line) Crowd() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.users + len(l.own)
}

// Place returns the place of this client with that name, or nil.
func (l *Line) Place(name string) *Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, found := l.find(name); found {
		return l.own[i]
	}
	return nil
}

// Previous returns the nearest place of this client before a name, or nil.
func (l *Line) Previous(name string) *Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i, _ := l.find(name); i > 0 {
		return l.own[i-1]
	}
	return nil
}

func (l *Line) find(name string) (int, bool) {
	return slices.BinarySearchFunc(l.own, name, func(p *Place, name string) int { return l.sorter.Compare(p.name, name) })
}

func (l *Line) comparePlaces(a, b *Place) int { return l.sorter.Compare(a.name, b.name) }

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
	if i, found := l.find(name); found {
		return l.own[i].Data, true
	}
	data, known = l.data[name]
	return data, known
}

func (l *Line) number(name string) (int32, bool) {
	if numberer, ok := l.sorter.(Numberer); ok {
		return numberer.Number(name)
	}
	return 0, false
}
