// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Ensemble is three or five servers in one process, which replicate as ZooKeeper's servers do. A write goes to the leader,
// is committed by a majority, and is applied by each server in order. A server answers reads from what it has applied, so a
// follower may lack what was just written. Package documentation says what can go wrong with an ensemble on request.
//
// Servers have neither TCP between them nor clocks of their own: an ensemble whose servers are made [WithoutListener] runs
// inside a bubble of testing/synctest. Methods may be called from any goroutine, also while clients use the servers.
type Ensemble struct {
	mu        sync.Mutex // of all servers; guards all below
	members   []*member  // observers come last
	syncLimit int
	tick      time.Duration

	config    string   // the data of /zookeeper/config
	links     [][]link // from, to
	events    []occurrence
	scheduled int       // events so far
	settling  bool      // settle runs
	alarm     time.Time // when run wakes up; zero for never

	wake chan struct{} // one token: there is an earlier event than alarm
	stop chan struct{}
	done sync.WaitGroup
}

// electionTime is how long elections of ZooKeeper take from the last vote.
const electionTime = 200 * time.Millisecond

// Close closes all servers and waits for their goroutines. Closing again does nothing and returns nil.
func (e *Ensemble) Close() error {
	var errs []error
	for _, m := range e.members {
		errs = append(errs, m.s.Close())
	}
	e.mu.Lock()
	select {
	case <-e.stop:
	default:
		close(e.stop)
	}
	e.mu.Unlock()
	e.done.Wait()
	return errors.Join(errs...)
}

// Servers returns the servers by their ids, observers last. Each has the methods of a server that stands alone: [Server.Stop],
// [Server.Restart], [Server.Pause], the faults between a server and its clients, and the log, which is one for all.
func (e *Ensemble) Servers() []*Server {
	list := make([]*Server, len(e.members))
	for i, m := range e.members {
		list[i] = m.s
	}
	return list
}

// Server returns the server with the index i, from 0. Its id is i+1.
func (e *Ensemble) Server(i int) *Server { return e.members[i].s }

// ID is the server's number in its ensemble, from 1. It is 1 for a server that stands alone.
func (s *Server) ID() int {
	if s.member == nil {
		return 1
	}
	return s.member.id
}

// Leader returns the server that leads a majority, or nil if none does. A leader that has lost its majority and does not know
// is not meant.
func (e *Ensemble) Leader() *Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.term(); t != nil {
		return t.leader.s
	}
	return nil
}

// Followers returns the servers that follow [Ensemble.Leader], by id.
func (e *Ensemble) Followers() []*Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []*Server
	if t := e.term(); t != nil {
		for _, l := range t.learners {
			if l != nil && l.m != t.leader && l.m.as == l {
				list = append(list, l.m.s)
			}
		}
	}
	return list
}

// AwaitLeader waits until there is a leader and all servers that run follow it, and returns the leader.
func (e *Ensemble) AwaitLeader(ctx context.Context) (*Server, error) {
	poll := time.NewTicker(e.tick / 2)
	defer poll.Stop()
	for {
		if s := e.settled(); s != nil {
			return s, nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("zkserver: no leader that all servers follow: %w", context.Cause(ctx))
		}
	}
}

// settled returns the leader if no server that runs is without it.
func (e *Ensemble) settled() *Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.term()
	if t == nil {
		return nil
	}
	for _, m := range e.members {
		if m.s.run != nil && (m.as == nil || m.as.term != t) {
			return nil
		}
	}
	return t.leader.s
}

// ConnectString names all servers, for clients that connect with [Ensemble.Dial], or over TCP if the servers listen.
func (e *Ensemble) ConnectString() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for _, m := range e.members {
		names = append(names, m.address())
	}
	return strings.Join(names, ",")
}

// address is that of the server, one of its own if it does not listen: no name, which clients would look up.
func (m *member) address() string {
	if m.s.cfg.listen {
		return m.s.addr
	}
	return "127.0.0." + strconv.Itoa(m.id) + ":2181"
}

// Znode is a znode of an ensemble.
type Znode struct {
	Path  string
	Data  []byte
	Czxid int64 // of the transaction that created it
	Owner int64 // the session of an ephemeral znode, or 0
}

// Znodes returns the znode at path and all below it, by path, as the server has them that has applied the most. A test judges by
// them what its clients have seen. There are none if no server leads a majority, or there is no znode at path.
func (e *Ensemble) Znodes(path string) []Znode {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.term()
	if t == nil {
		return nil
	}
	newest := t.leader.s.tree
	for _, m := range e.members {
		// A server that was stopped counts, too: what it has applied is committed, and those that run may lag.
		if m.s.tree.zxid > newest.zxid {
			newest = m.s.tree
		}
	}
	var list []Znode
	below := strings.TrimSuffix(path, "/") + "/"
	for at, n := range newest.nodes {
		if at == path || strings.HasPrefix(at, below) {
			list = append(list, Znode{Path: at, Data: slices.Clone(n.data), Czxid: n.czxid, Owner: n.owner})
		}
	}
	slices.SortFunc(list, func(a, b Znode) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// What happens to the servers of an ensemble; Event.Server is the one.
const (
	Leads   EventKind = "leads"   // it was elected
	Follows EventKind = "follows" // it has all that the leader has
	Looks   EventKind = "looks"   // it has no leader, and has ended its connections; Detail says why
)

// check returns an error unless the servers are of this ensemble.
func (e *Ensemble) check(call string, servers ...*Server) error {
	for _, s := range servers {
		if !slices.ContainsFunc(e.members, func(m *member) bool { return m.s == s }) {
			return fmt.Errorf("zkserver: %s of a server that is nil or of another ensemble, expected one of this ensemble", call)
		}
	}
	return nil
}

// mustHave is check for calls that return no error.
func (e *Ensemble) mustHave(call string, servers ...*Server) {
	if err := e.check(call, servers...); err != nil {
		panic(err.Error())
	}
}

// ChangeLeader has the servers elect s, as if its leader had stopped for a moment. Clients lose their connections. It fails,
// and does nothing, unless s follows the leader and votes.
func (e *Ensemble) ChangeLeader(s *Server) error {
	if err := e.check("ChangeLeader", s); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.term()
	switch {
	case !s.member.votes():
		return fmt.Errorf("zkserver: server %d cannot become leader: it is an observer, a server that votes expected", s.member.id)
	case t == nil || s.member.as == nil || s.member.as.term != t || s.member == t.leader:
		return fmt.Errorf("zkserver: server %d cannot become leader: it follows none", s.member.id)
	}
	s.commandf(0, "ChangeLeader")
	s.member.preferred = true
	t.leader.look("ChangeLeader")
	e.settle()
	return nil
}

// Leave has the ensemble take a server out, as reconfig of ZooKeeper does. The server has no vote any more, and is missing in
// /zookeeper/config. It goes on serving clients until it is stopped. Leave fails, and does nothing, if the server leads, or if too few of the
// others would follow the leader, or only one would vote.
func (e *Ensemble) Leave(s *Server) error { return e.reconfigure("Leave", s, true) }

// Join has the ensemble take back a server that has left. It fails, and does nothing, unless the server follows the leader.
func (e *Ensemble) Join(s *Server) error { return e.reconfigure("Join", s, false) }

func (e *Ensemble) reconfigure(call string, s *Server, leaves bool) error {
	if err := e.check(call, s); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t, m, voters, following := e.term(), s.member, 0, 0
	for _, other := range e.members {
		if other.votes() && (other != m || !leaves) {
			voters++
			if t != nil && other.isIn(t) && e.reaches(other, t.leader) {
				following++
			}
		}
	}
	var why string
	switch {
	case t == nil:
		why = "there is no leader"
	case m.left == leaves:
		why = "it has done so already"
	case slices.ContainsFunc(t.leader.tail, func(en *entry) bool { return en.op == OpReconfig }):
		why = "another change is under way"
	case leaves && m == t.leader:
		why = "it leads"
	case leaves && (voters < 2 || following <= voters/2):
		why = "too few others follow the leader"
	case !leaves && !m.isIn(t):
		why = "it does not follow the leader"
	default:
		s.commandf(0, "%s", call)
		t.leader.propose(&entry{op: OpReconfig, change: func() { m.left = leaves }})
		e.settle()
		return nil
	}
	return fmt.Errorf("zkserver: %s of server %d: %s", call, m.id, why)
}

// configure writes down who is in the ensemble. The version is the transaction that has changed this.
func (e *Ensemble) configure(zxid int64) {
	var config strings.Builder
	for _, m := range e.members {
		if m.left {
			continue
		}
		role := "participant"
		if m.observes {
			role = "observer"
		}
		host, _, _ := strings.Cut(m.address(), ":")
		fmt.Fprintf(&config, "server.%d=%s:2888:3888:%s;%s\n", m.id, host, role, m.address())
	}
	fmt.Fprintf(&config, "version=%x", zxid)
	e.config = config.String()
}

// Lag makes a server apply what the ensemble has committed late: after d, and, if transactions is not 0, not before so many
// later transactions are committed. Writes and syncs of its own clients wait for d too, but not for later transactions. The
// returned function takes the lag back: the server applies at once what it lacks. A second Lag of a server replaces the first.
func (e *Ensemble) Lag(s *Server, d time.Duration, transactions int) (catchUp func()) {
	e.mustHave("Lag", s)
	e.mu.Lock()
	defer e.mu.Unlock()
	s.commandf(0, "Lag %v, %d transactions", d, transactions)
	mine := &lag{time: d, transactions: transactions}
	s.member.lag = mine
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if m := s.member; m.lag == mine {
			s.commandf(0, "Lag: catch up")
			m.lag = nil
			m.ripe = m.committed
			m.applyRipe()
			e.settle()
		}
	}
}

// ClockRate has a server's clock run at a rate from now on: 1.5 is half as fast again as time goes by, and 1 the rate of all
// servers in the beginning. The server counts ticks, timeouts of sessions while it leads, and times of transactions by its clock.
// It goes on from where it is, so a clock that was slow stays behind. A rate below 0.1 or above 10 is an error.
func (e *Ensemble) ClockRate(s *Server, rate float64) error {
	if err := e.check("ClockRate", s); err != nil {
		return err
	}
	if !(rate >= 0.1 && rate <= 10) {
		return fmt.Errorf("zkserver: clock of server %d at the rate %v: 0.1 to 10 expected", s.member.id, rate)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.commandf(0, "ClockRate %v", rate)
	s.timing.Store(&timing{rate: rate, from: time.Now(), at: s.clock()})
	return nil
}

// LoseUnsynced takes from a stopped server what it got when it last joined a leader, and all since. ZooKeeper 3.8.0 may lose
// this when a follower is killed while it catches up (ZOOKEEPER-4643, -4646, -4785). If a majority has nothing else left,
// transactions that were acknowledged are gone. It fails if the server runs, or has never joined a leader.
func (e *Ensemble) LoseUnsynced(s *Server) error {
	if err := e.check("LoseUnsynced", s); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m := s.member
	switch {
	case s.run != nil:
		return fmt.Errorf("zkserver: lose what server %d has not synced: it runs: stop it first", m.id)
	case m.before == nil:
		return fmt.Errorf("zkserver: lose what server %d has not synced: it has lost it already, or never joined a leader", m.id)
	}
	s.commandf(0, "LoseUnsynced")
	m.become(*m.before)
	m.before = nil
	return nil
}
