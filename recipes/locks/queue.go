// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks/internal/line"
)

// queue is the queue of one lock: where its nodes are, how they are ordered, and how many
// have the lock. It does not change.
type queue struct {
	client    *framework.Framework
	driver    LockInternalsDriver
	path      string // the folder
	fullPath  string // of the folder, at the server
	lockName  string // the part of a node's name before the number
	basePath  string // path and lockName, as the driver gets it
	maxLeases MaxLeases
	line      *line.Line
}

func newQueue(client *framework.Framework, driver LockInternalsDriver, path, lockName string, maxLeases MaxLeases) *queue {
	q := &queue{
		client: client, driver: driver, path: path, fullPath: client.FullPath(path),
		lockName: lockName, basePath: framework.JoinPath(path, lockName), maxLeases: maxLeases,
	}
	q.line = q.newLine()
	return q
}

// lineKey distinguishes the locks that know of each other's contenders.
type lineKey struct {
	client *framework.Framework // without namespace
	path   string               // at the server
	sorter any                  // equal for locks that sort the names in the same way
	fixed  bool                 // the maximum; see queue.localReleaseProves
}

// orderedDriver is a driver of this package. Several of them may sort the names in one way.
type orderedDriver interface{ order() line.Sorter }

// newLine returns what the client knows of the contenders.
func (q *queue) newLine() *line.Line {
	_, fixed := q.maxLeases.(FixedLeases)
	key := lineKey{client: q.client.WithoutNamespace(), path: q.fullPath, fixed: fixed}
	if driver, ok := q.driver.(orderedDriver); ok {
		key.sorter = driver.order()
		return line.Of(key, driver.order())
	}
	if !reflect.ValueOf(q.driver).Comparable() {
		return line.New(q.driver) // shared by no other lock
	}
	key.sorter = q.driver
	return line.Of(key, q.driver)
}

// localReleaseProves reports whether the release of an acquisition of this process proves
// that its place is free. If the maximum may change only the server's events count: they come
// in order with the news of another maximum.
func (q *queue) localReleaseProves(driver LockInternalsDriver, name string) bool {
	shrinking, ok := driver.(ShrinkingQueue)
	if _, fixed := q.maxLeases.(FixedLeases); !ok || !fixed {
		return false
	}
	return marks(driver) || shrinking.Shrinks(name)
}

// markingQueue is a [ShrinkingQueue] in which a contender may take the place of one that
// leaves, and that marks the contenders of this process whose place was taken; see
// member.unproven.
type markingQueue interface{ marks() bool }

func marks(driver LockInternalsDriver) bool {
	marking, ok := driver.(markingQueue)
	return ok && marking.marks()
}

// Ready waits until a list can be sent; see [line.Lister].
func (q *queue) Ready() error {
	if q.client.State().IsConnected() {
		return nil
	}
	// A cheap request waits as long as any verb does.
	return attempt.Guard(q.client, func() error {
		_, err := q.client.Exists(context.Background(), q.path)
		return err
	})
}

// List lists the folder, in the client's context: acquisitions share the answer.
func (q *queue) List() (answer line.List, err error) {
	err = attempt.Guard(q.client, func() (err error) {
		var stat framework.Stat
		before := q.instant()
		answer.Names, err = q.client.Children(context.Background(), q.path, framework.StoringStatIn(&stat))
		answer.Pzxid, answer.History, answer.Link = stat.Pzxid, q.unchanged(before), before.link
		return err
	})
	return answer, err
}

// sorted returns the contenders among the children, in the order of the queue. It does not
// change children, and may return them.
func (q *queue) sorted(children []string) []string {
	if len(children) == 1 && q.driver.Contends(children[0]) {
		return children
	}
	contenders := slices.DeleteFunc(slices.Clone(children), func(name string) bool { return !q.driver.Contends(name) })
	slices.SortFunc(contenders, q.driver.Compare)
	return contenders
}

// pathsOf returns the paths of nodes in the folder.
func (q *queue) pathsOf(names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = framework.JoinPath(q.path, name)
	}
	return paths
}

// currentMax returns the number as it is now.
func (q *queue) currentMax(ctx context.Context) (int, error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	n, _, err := q.maxLeases.MaxLeases(ctx)
	return max(n, 0), err
}

// instant is what to know about the moment before a request, to judge its answer.
type instant struct {
	history int64
	link    context.Context // see linkOf
	grants  uint64
}

func (q *queue) instant() instant {
	return instant{q.client.History(), linkOf(q.client), grants.Load()}
}

// unchanged returns the history of an answer, or 0 if it may be of either of two.
func (q *queue) unchanged(before instant) int64 {
	if history := q.client.History(); history == before.history {
		return history
	}
	return 0
}

// grants counts the holds of this process.
var grants atomic.Uint64

// linkOf returns a context that ends with the connection. Each connection has its own.
func linkOf(client *framework.Framework) context.Context {
	if session := client.Session(); session != nil {
		return session.Context(framework.StandardErrorPolicy)
	}
	return context.Background()
}

// member is one acquisition of this process, from the creation of its node to the node's
// deletion, as the contenders behind it see it. Contenders of the same process learn of its
// end in memory, before its node is deleted, and need not ask the server.
type member struct {
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

// leave tells the contenders behind m that m neither holds the lock nor will.
func (m *member) leave() {
	if !heardLately(m.session) {
		m.unproven.Store(true)
	}
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
