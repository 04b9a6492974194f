package locks

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/gocurator/curator/framework"
)

// member is one acquisition of this process, from the creation of its node until
// that is deleted, as those behind it in the queue see it. They need not ask the
// server for the end of its hold: it tells them itself, before its node is deleted.
type member struct {
	folder *folder
	name   string

	over  context.Context // ends when it neither holds the lock any more nor ever will
	letGo context.CancelFunc

	// replaced says that another may have taken its place in the queue: only the
	// server knows who is before the others then.
	replaced atomic.Bool
}

// hasLetGo tells whether nobody need wait for it any more.
func (m *member) hasLetGo() bool {
	return m.over.Err() != nil && !m.replaced.Load() // in this order: a place is taken before it is given up
}

// folder is the members of one lock's folder. It exists as long as it has any.
type folder struct {
	key     folderKey
	members map[string]*member // by the names of their nodes
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

// join makes an acquisition known that has its node.
func (l *LockInternals) join(path string) *member {
	_, name := framework.SplitPath(path)
	m := &member{name: name}
	m.over, m.letGo = context.WithCancel(context.Background())
	key := folderKey{l.client.WithoutNamespace(), l.fullPath}
	folders.Lock()
	defer folders.Unlock()
	m.folder = folders.byKey[key]
	if m.folder == nil {
		m.folder = &folder{key, make(map[string]*member)}
		folders.byKey[key] = m.folder
	}
	m.folder.members[name] = m
	return m
}

// part forgets a member that has let go and whose node was deleted, or is being
// deleted: whoever finds it in a list from now on asks the server.
func (m *member) part() {
	folders.Lock()
	defer folders.Unlock()
	if m.folder.members[m.name] == m { // a driver without protection may use a name again
		delete(m.folder.members, m.name)
	}
	if len(m.folder.members) == 0 && folders.byKey[m.folder.key] == m.folder {
		delete(folders.byKey, m.folder.key)
	}
}

// companions returns the members among the names.
func (m *member) companions(names []string) map[string]*member {
	folders.Lock()
	defer folders.Unlock()
	if len(m.folder.members) < 2 {
		return nil // it is the only one
	}
	found := make(map[string]*member)
	for _, name := range names {
		if other := m.folder.members[name]; other != nil {
			found[name] = other
		}
	}
	return found
}
