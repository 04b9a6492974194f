package locks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
)

// member is one acquisition of this process, from the creation of its node to the
// node's deletion, as those behind it in the queue see it. They need not ask the
// server for the end of its hold: it tells them itself, before its node is deleted.
type member struct {
	folder  *folder
	name    string
	data    []byte // of its node
	session *framework.Session

	over context.Context // ends when it neither holds the lock any more nor ever will
	end  context.CancelFunc

	// unproven says that the end of this member proves nothing to those behind it:
	// another has taken its place, or no server was heard from lately. They ask the server.
	unproven atomic.Bool

	granted moment      // unset while it waits
	warned  atomic.Bool // that others of this process wait for it
}

// moment is a time that may not be set. It is safe for concurrent use.
type moment struct{ at atomic.Pointer[time.Time] }

func (m *moment) set()        { now := time.Now(); m.at.Store(&now) }
func (m *moment) clear()      { m.at.Store(nil) }
func (m *moment) isSet() bool { return m.at.Load() != nil }

// ago returns how long ago the moment was, 0 if it is not set.
func (m *moment) ago() time.Duration {
	if at := m.at.Load(); at != nil {
		return time.Since(*at)
	}
	return 0
}

func (m *moment) within(d time.Duration) bool { return m.isSet() && m.ago() <= d }

// proofAge is how old the newest acknowledged request may be when a lock is handed on
// in memory. Without news of that age both nodes may have been deleted long ago, and
// another client hold the lock.
const proofAge = 100 * time.Millisecond

// heardLately reports whether a server has acknowledged a request of the session that
// was sent within proofAge.
func heardLately(s *framework.Session) bool {
	timeout := s.Timeout()
	sent := s.Deadline().Add(timeout/100 - timeout) // see Session.Deadline
	return time.Since(sent) <= proofAge
}

// letGo tells those behind m that it neither holds the lock any more nor ever will.
func (m *member) letGo() {
	if m.over.Err() != nil {
		return
	}
	if !heardLately(m.session) {
		m.unproven.Store(true)
	}
	m.folder.drop(m)
	m.end()
}

// hasLetGo reports whether the word of m is enough to go on without it.
func (m *member) hasLetGo() bool {
	return m.over.Err() != nil && !m.unproven.Load() // in this order: a place is taken before it is given up
}

// folder is what one client knows of the folder of a lock: its own acquisitions there
// and the newest list of names, which all of them share.
type folder struct {
	key  folderKey
	refs int // guarded by folders

	mu      sync.Mutex // guards what follows, and is never held while a driver is called
	members map[string]*member
	begun   uint64            // lists that were begun
	asking  *listing          // begun, or about to be; not answered
	next    *listing          // to be begun when that is answered
	last    *listing          // the newest answer
	orders  map[any]*order    // by LockInternals.orderKey
	read    map[string]string // the data of contenders that were read
	coming  []*trial          // tries that are about to create their nodes
}

type folderKey struct {
	client *framework.Framework // that of all views
	path   string               // at the server
}

// folders are those of all clients.
var folders = struct {
	sync.Mutex
	byKey map[folderKey]*folder
}{byKey: make(map[folderKey]*folder)}

// openFolder returns the lock's folder, which exists until all who opened it have closed it.
func (l *LockInternals) openFolder() *folder {
	key := folderKey{l.client.WithoutNamespace(), l.fullPath}
	folders.Lock()
	defer folders.Unlock()
	f := folders.byKey[key]
	if f == nil {
		f = &folder{
			key: key, members: make(map[string]*member), orders: make(map[any]*order), read: make(map[string]string),
		}
		folders.byKey[key] = f
	}
	f.refs++
	return f
}

func (f *folder) close() {
	folders.Lock()
	defer folders.Unlock()
	if f.refs--; f.refs == 0 {
		delete(folders.byKey, f.key)
	}
}

// join makes an acquisition known that has its node. It opens the folder once more.
func (l *LockInternals) join(session *framework.Session, path string, t *trial) *member {
	_, name := framework.SplitPath(path)
	m := &member{folder: l.openFolder(), name: name, data: l.cfg.data, session: session}
	m.over, m.end = context.WithCancel(context.Background())
	m.folder.mu.Lock()
	defer m.folder.mu.Unlock()
	m.folder.withdrawLocked(t)
	m.folder.members[name] = m
	return m
}

// part forgets a member that has let go and whose node was deleted, or is being
// deleted: an acquisition that finds it in a list from now on asks the server.
func (m *member) part() {
	defer m.folder.close()
	m.folder.mu.Lock()
	defer m.folder.mu.Unlock()
	if m.folder.members[m.name] == m { // a driver without protection may use a name again
		delete(m.folder.members, m.name)
	}
}

// member returns the acquisition of this process with that name, or nil.
func (f *folder) member(name string) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[name]
}

// alive returns the names of the acquisitions of this process that hold the lock or wait.
func (f *folder) alive() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, len(f.members))
	for name, m := range f.members {
		if !m.hasLetGo() {
			names = append(names, name)
		}
	}
	return names
}

// crowd is from how many users of a folder on a newcomer shares the next list rather than
// have one of its own with the creation of its node. An acquisition that waits is two.
const crowd = 64

func (f *folder) isCrowded() bool {
	folders.Lock()
	defer folders.Unlock()
	return f.refs >= crowd
}

// identityOf returns the data of a contender as far as it is known without a request.
func (f *folder) identityOf(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[name]; m != nil {
		return string(m.data)
	}
	return f.read[name]
}

// hasRead reports whether the contender was read, and so may be.
func (f *folder) hasRead(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, found := f.read[name]
	return found
}

func (f *folder) noteRead(name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read[name] = string(data)
}

// trial is one try that may be about to create its node.
type trial struct{ lockName string }

// announce makes a try known that may create its node, and returns those before it.
func (f *folder) announce(t *trial) (before []*trial) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = slices.Clone(f.coming)
	f.coming = append(f.coming, t)
	return before
}

func (f *folder) withdraw(t *trial) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.withdrawLocked(t)
}

func (f *folder) withdrawLocked(t *trial) {
	if i := slices.Index(f.coming, t); i >= 0 {
		f.coming = slices.Delete(f.coming, i, i+1)
	}
}

// admits reports whether a newcomer would get the lock behind these contenders, the
// acquisitions of this process and the tries before it. A driver whose names do not end
// with the number of the server is not asked: then only the server knows.
func (l *LockInternals) admits(f *folder, contenders []string, before []*trial, maxLeases int) bool {
	queue := slices.Clone(contenders)
	for _, name := range f.alive() {
		if l.driver.Contends(name) && !slices.Contains(contenders, name) {
			queue = append(queue, name)
		}
	}
	slices.SortFunc(queue, l.driver.Compare)
	number := int32(-1)
	if len(queue) > 0 {
		var ok bool
		if number, ok = trailingNumber(queue[len(queue)-1]); !ok {
			return true
		}
	}
	_, lockName := framework.SplitPath(l.basePath)
	for _, t := range append(before, &trial{lockName}) {
		number++
		queue = append(queue, fmt.Sprintf("%s%010d", t.lockName, number))
	}
	ours := queue[len(queue)-1]
	if number <= 0 && len(queue) > 1 || !l.driver.Contends(ours) || !slices.IsSortedFunc(queue, l.driver.Compare) {
		return true // the count has wrapped, or the names are of another kind
	}
	result, err := l.driver.GetsTheLock(queue, ours, maxLeases)
	return err != nil || result.GetsTheLock
}

// trailingNumber returns the number that the server has appended to a name.
func trailingNumber(name string) (int32, bool) {
	if len(name) < 10 {
		return 0, false
	}
	return StandardLockInternalsSorter{name[:len(name)-10]}.Sequence(name)
}

// order is what one client knows of a queue that shrinks: the contenders of the newest
// list, less those known to have gone since. While no contender can come to stand before
// another (see [ShrinkingQueue]) all that one has to wait for are among them. So if the
// driver lets it in by them, it would by a new list.
type order struct {
	shrinking ShrinkingQueue
	marks     bool // the members say themselves when their end proves nothing
	local     bool // the word of a member that it has let go counts

	// Guarded by the folder's mu. live is never changed in place.
	number uint64            // of the list that live is from
	live   []string          // in the order of the queue
	gone   map[string]uint64 // left out of live, and how many lists had been begun by then
	stale  bool              // one in the middle has gone: those before it may have, unnoticed
}

func (l *LockInternals) newOrder(shrinking ShrinkingQueue) *order {
	_, fixed := l.maxLeases.(FixedLeases)
	_, marks := l.driver.(writeDriver)
	// A maximum that may change is to be heard of first: what the server tells comes in order.
	return &order{shrinking: shrinking, marks: marks, local: fixed, gone: make(map[string]uint64)}
}

// hears reports whether the word of a member that it has let go proves that its place
// is free.
func (o *order) hears(name string) bool { return o.local && (o.marks || o.shrinking.Shrinks(name)) }

// drop takes a member that lets go out of what is known.
func (f *folder) drop(m *member) {
	if m.unproven.Load() {
		return
	}
	f.mu.Lock()
	orders := make([]*order, 0, len(f.orders))
	for _, o := range f.orders {
		orders = append(orders, o)
	}
	f.mu.Unlock()
	for _, o := range orders {
		if o.hears(m.name) {
			f.remove(o, m.name)
		}
	}
}

// remove takes a contender out of what is known.
func (f *folder) remove(o *order, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch i := slices.Index(o.live, name); {
	case i < 0:
		return
	case i == 0:
		o.live = o.live[1:]
	default:
		o.live = slices.Concat(o.live[:i], o.live[i+1:])
		o.stale = true
	}
	o.gone[name] = f.begun
}

// queue returns the contenders by the newest list, less those known to have gone, if that
// list answers the question for the number. They must not be changed.
func (f *folder) queue(l *LockInternals, number uint64) (contenders []string, known bool) {
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	if !last.answers(linkOf(l.client), number) {
		return nil, false
	}
	return f.contendersBy(l, last), true
}

// linkOf returns a context that ends with the connection, and is another for each.
func linkOf(client *framework.Framework) context.Context {
	if session := client.Session(); session != nil {
		return session.Context(framework.StandardErrorPolicy)
	}
	return context.Background()
}

// lastKnown returns the contenders by the newest list, whatever has happened since.
func (f *folder) lastKnown(l *LockInternals) []string {
	f.mu.Lock()
	last := f.last
	f.mu.Unlock()
	if last == nil {
		return nil
	}
	return f.contendersBy(l, last)
}

func (f *folder) contendersBy(l *LockInternals, last *listing) []string {
	sorted := last.sorted(l)
	shrinking, ok := l.driver.(ShrinkingQueue)
	if !ok {
		return sorted
	}
	f.mu.Lock()
	o := f.orders[l.orderKey]
	if o == nil {
		o = l.newOrder(shrinking)
		f.orders[l.orderKey] = o
	}
	isNew := o.number < last.number
	var over []string
	if isNew {
		for name, m := range f.members {
			if m.hasLetGo() {
				over = append(over, name)
			}
		}
	}
	f.mu.Unlock()
	if isNew {
		over = slices.DeleteFunc(over, func(name string) bool { return !o.hears(name) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.number < last.number {
		o.takeInLocked(last.number, sorted, over)
	}
	return o.live
}

// takeInLocked makes a list what is known, less the contenders that have gone since it
// was begun and those of this process that have let go.
func (o *order) takeInLocked(number uint64, sorted, over []string) {
	for name, begun := range o.gone {
		if begun < number {
			delete(o.gone, name) // the list is newer
		}
	}
	for _, name := range over {
		o.gone[name] = number
	}
	o.number, o.live, o.stale = number, sorted, false
	if len(o.gone) > 0 {
		o.live = slices.DeleteFunc(slices.Clone(sorted), func(name string) bool { _, gone := o.gone[name]; return gone })
	}
}

// isStale reports whether contenders may have gone unnoticed.
func (f *folder) isStale(o *order) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return o.stale
}

func (f *folder) orderOf(l *LockInternals) *order {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.orders[l.orderKey]
}

// describe returns the contenders before a place as participants, as far as they are known.
func (l *LockInternals) describe(f *folder, contenders []string) []Participant {
	_, lockName := framework.SplitPath(l.basePath)
	participants := make([]Participant, len(contenders))
	for i, name := range contenders {
		p := Participant{Path: framework.JoinPath(l.path, name), LockName: lockName, Position: i}
		p.Sequence, _ = trailingNumber(name)
		p.Identity = f.identityOf(name)
		p.Host, p.PID, p.Label = parseIdentity(p.Identity)
		participants[i] = p
	}
	return participants
}
