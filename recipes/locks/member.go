// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks/internal/line"
)

// member is one acquisition of this process, from the creation of its node to the node's
// deletion, as the contenders behind it see it. Contenders of the same process learn of its
// end in memory, before its node is deleted, and need not ask the server.
type member struct {
	node    nodeKey
	place   *line.Place
	session *framework.Session
	proves  bool // its end proves that its place is free, unless unproven is set

	// unproven makes waiters confirm the end of this member with the server: another node
	// has taken its place, or no server has answered lately.
	unproven atomic.Bool

	granted atomicTime    // unset while it waits
	grant   atomic.Uint64 // the number of its grant; set before granted
	warned  atomic.Bool   // the log says that this process waits for its own hold
}

// nodeKey is the node of a contender, for all views of a client.
type nodeKey struct {
	client       *framework.Framework // without namespace
	folder, name string               // at the server
}

// holders are the holds of this process, whatever driver has let them in. Two drivers need not
// share a line, and may contend all the same.
var holders = struct {
	sync.Mutex
	byNode map[nodeKey]*member
}{byNode: make(map[nodeKey]*member)}

// holderOf returns the hold of this process with this node, or nil.
func holderOf(node nodeKey) *member {
	holders.Lock()
	defer holders.Unlock()
	return holders.byNode[node]
}

// grants counts the holds of this process.
var grants atomic.Uint64

// holds notes that m holds the lock.
func (m *member) holds() {
	m.grant.Store(grants.Add(1))
	m.granted.set()
	m.place.Granted()
	holders.Lock()
	defer holders.Unlock()
	holders.byNode[m.node] = m
}

// holdsNoMore takes back a call of holds, if there was one.
func (m *member) holdsNoMore() {
	holders.Lock()
	defer holders.Unlock()
	delete(holders.byNode, m.node)
}

// heardLately reports whether a server has acknowledged a request of the session that
// was sent within proofAge.
func heardLately(s *framework.Session) bool {
	timeout := s.Timeout()
	sent := s.Deadline().Add(timeout/100 - timeout) // see Session.Deadline
	return time.Since(sent) <= proofAge
}

// leave tells the contenders behind m that m neither holds the lock nor will.
func (m *member) leave() {
	if !heardLately(m.session) {
		m.unproven.Store(true)
	}
	m.holdsNoMore() // before it wakes a contender that may stand before it
	m.place.Leave(m.proves && !m.unproven.Load())
}

// ownerOf returns the acquisition at a place, or nil if there is no place.
func ownerOf(p *line.Place) *member {
	if p == nil {
		return nil
	}
	m, _ := p.Owner.(*member)
	return m
}

// epoch is the zero of every atomicTime.
var epoch = time.Now()

// atomicTime is a time that may be unset. It is safe for concurrent use.
type atomicTime struct{ at atomic.Int64 } // nanoseconds since epoch, or 0 while it is unset

func (m *atomicTime) set() { m.at.Store(max(int64(time.Since(epoch)), 1)) }

func (m *atomicTime) clear() { m.at.Store(0) }

func (m *atomicTime) isSet() bool { return m.at.Load() != 0 }

// ago returns how long ago the moment was, or 0 if it is not set.
func (m *atomicTime) ago() time.Duration {
	if at := m.at.Load(); at != 0 {
		return time.Since(epoch) - time.Duration(at)
	}
	return 0
}

func (m *atomicTime) within(d time.Duration) bool { return m.isSet() && m.ago() <= d }
