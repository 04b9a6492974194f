package locks

import (
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
)

// member is one acquisition of this process, from the creation of its node to the node's
// deletion, as the contenders behind it see it. Contenders of the same process learn of its
// end in memory, before its node is deleted, and need not ask the server.
type member struct {
	folder  *folder
	name    string
	data    []byte // of its node
	session *framework.Session

	over signal // ends when it has released or lost the lock, or given up

	// unproven says that the end of this member does not prove that its place is free:
	// another node has taken the place, or no server has answered lately. The contenders
	// behind it then ask the server.
	unproven atomic.Bool

	granted   moment        // unset while it waits
	firstList atomic.Uint64 // that began after it was granted; set before granted
	warned    atomic.Bool   // the log says that this process waits for its own hold
}

// proofAge bounds the age of the newest acknowledged request when a lock is handed on in
// memory. On a silent link both nodes may have been deleted long ago, and another client
// may hold the lock.
const proofAge = 100 * time.Millisecond

// heardLately reports whether a server has acknowledged a request of the session that
// was sent within proofAge.
func heardLately(s *framework.Session) bool {
	timeout := s.Timeout()
	sent := s.Deadline().Add(timeout/100 - timeout) // see Session.Deadline
	return time.Since(sent) <= proofAge
}

// letGo tells the contenders behind m that m neither holds the lock nor will.
func (m *member) letGo() {
	if m.over.hasEnded() {
		return
	}
	if !heardLately(m.session) {
		m.unproven.Store(true)
	}
	m.folder.drop(m) // first: a waiter that wakes up must not find m in the queue
	m.over.end(nil)
}

// hasLetGo reports whether m has left and its place is free.
func (m *member) hasLetGo() bool {
	// The order matters: a member is marked unproven before it lets go.
	return m.over.hasEnded() && !m.unproven.Load()
}

// part forgets a member that has let go and whose node is deleted or about to be. From now
// on an acquisition that finds its name in a list asks the server.
func (m *member) part() {
	defer m.folder.forget()
	m.folder.mu.Lock()
	defer m.folder.mu.Unlock()
	if m.folder.members.get(m.name) == m { // a driver without protection may use a name again
		m.folder.members.remove(m.name)
	}
}
