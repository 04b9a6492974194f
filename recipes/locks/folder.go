package locks

import (
	"slices"
	"sync"

	"github.com/gocurator/curator/framework"
)

// folder is what one client knows about the folder of a lock: its own acquisitions there
// and the newest list of names, which all of them share.
type folder struct {
	key folderKey

	// Guarded by folders.
	refs  int // of users and of members
	users int // acquisitions and tries under way

	mu      sync.Mutex // guards the fields below; never held while a driver is called
	members memberSet
	begun   uint64            // the number of lists begun so far
	read    map[string]string // the data of contenders that were read
	*known                    // nil while there are no users, so that a lock that is held takes less memory
}

// known is what the users of a folder have found out about its names.
type known struct {
	asking *listing // begun or about to begin, and not answered
	next   *listing // begins when asking is answered
	last   *listing // the newest answer
	orders []*order // one for each queue.orderKey; there are few
	coming []*trial // tries that are about to create their nodes

	// Memory for the first list and the first order. Users that leave soon need no more.
	firstList   listing
	first       order
	ordersOfOne [1]*order
}

type folderKey struct {
	client *framework.Framework // without namespace, so that all views share a folder
	path   string               // at the server
}

// folders has the folders of all clients.
var folders = struct {
	sync.Mutex
	byKey map[folderKey]*folder
}{byKey: make(map[folderKey]*folder)}

// openFolder returns the lock's folder for a user, which must close it.
func (q *queue) openFolder() *folder {
	key := folderKey{q.client.WithoutNamespace(), q.fullPath}
	folders.Lock()
	defer folders.Unlock()
	f := folders.byKey[key]
	if f == nil {
		f = &folder{key: key}
		folders.byKey[key] = f
	}
	f.refs++
	if f.users++; f.users == 1 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.known = new(known)
	}
	return f
}

// close ends the use of the folder by an acquisition or a try. With the last user goes what
// is known of the names: the next user lists them in any case.
func (f *folder) close() {
	folders.Lock()
	defer folders.Unlock()
	if f.users--; f.users == 0 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.known = nil
	}
	f.forgetLocked()
}

// forget ends the use of the folder by a member. The folder goes with its last user or member.
func (f *folder) forget() {
	folders.Lock()
	defer folders.Unlock()
	f.forgetLocked()
}

func (f *folder) forgetLocked() {
	if f.refs--; f.refs == 0 {
		delete(folders.byKey, f.key)
	}
}

// join adds an acquisition that has its node to the folder, which its caller has opened. The
// folder exists until the member has parted.
func (f *folder) join(session *framework.Session, path string, data []byte, t *trial) *member {
	folders.Lock()
	f.refs++
	folders.Unlock()
	_, name := framework.SplitPath(path)
	m := &member{folder: f, name: name, data: data, session: session}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.withdrawLocked(t)
	f.members.put(m)
	return m
}

// member returns the acquisition of this process with that name, or nil.
func (f *folder) member(name string) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members.get(name)
}

// alive returns the names of the acquisitions of this process that hold the lock or wait.
func (f *folder) alive() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, f.members.len())
	for m := range f.members.all {
		if !m.hasLetGo() {
			names = append(names, m.name)
		}
	}
	return names
}

// some returns the names of up to n acquisitions of this process, whichever they are.
func (f *folder) some(n int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, min(n, f.members.len()))
	for m := range f.members.all {
		if len(names) == cap(names) {
			break
		}
		names = append(names, m.name)
	}
	return names
}

// crowd is the number of users of a folder from which on a newcomer shares the next list
// with others instead of reading one with its create. A waiting acquisition counts as two.
const crowd = 32

// isCrowded reports whether the folder has a crowd of users.
func (f *folder) isCrowded() bool {
	folders.Lock()
	defer folders.Unlock()
	return f.refs >= crowd
}

// identityOf returns the data of a contender, if it is known without a request.
func (f *folder) identityOf(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members.get(name); m != nil {
		return string(m.data)
	}
	return f.read[name]
}

// hasRead reports whether this client has read the contender's node, and so may read it.
func (f *folder) hasRead(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, found := f.read[name]
	return found
}

// noteRead keeps the data of a contender.
func (f *folder) noteRead(name string, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read == nil {
		f.read = make(map[string]string)
	}
	f.read[name] = string(data)
}

// trial is a try that may be about to create its node.
type trial struct {
	lockName string
	over     chan struct{} // closed when it has its node, or has failed to create one
}

func newTrial(lockName string) *trial { return &trial{lockName, make(chan struct{})} }

// announce adds a try to the folder, and returns the tries that were announced before it.
func (f *folder) announce(t *trial) (before []*trial) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = slices.Clone(f.coming)
	f.coming = append(f.coming, t)
	return before
}

// withdraw removes a try that has its node, or creates none.
func (f *folder) withdraw(t *trial) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.withdrawLocked(t)
}

func (f *folder) withdrawLocked(t *trial) {
	if i := slices.Index(f.coming, t); i >= 0 {
		f.coming = slices.Delete(f.coming, i, i+1)
		close(t.over)
	}
}
