package locks

import (
	"context"
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
