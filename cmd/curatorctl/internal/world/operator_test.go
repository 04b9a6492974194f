// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/doctor"
	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zksim"
)

// crossed are two mutexes that processes take in either order, breakable the locks that an operator breaks, and explained the paths that it
// asks about.
var (
	crossed   = []string{"/cross/a", "/cross/b"}
	breakable = append([]string{"/mutex", "/both", "/semaphore", "/permits", "/election"}, crossed...)
	explained = append([]string{"/group", "/jobs", "/queue", "/slots"}, breakable...)
)

// told is what an operator was told of the client of a session. It is judged by the log of the servers.
type told struct {
	by          string
	from, until time.Duration
	session     int64
	life        inspect.Life
	timeout     time.Duration
	connection  string // that the session had all the time; "" for none, or several
	isApart     bool   // it had none in the beginning, and none in the end
}

// blocked is the wait for a lock under a lease.
type blocked struct {
	under    int64 // the token of the lease
	path     string
	from, to time.Duration // to is 0 while it waits
	granted  bool
}

// operators are what operators were told, and what they have done.
type operators struct {
	told    []told
	waits   []*blocked
	holds   map[*kept]bool
	broken  map[int64]bool // tokens of holds
	asked   map[int64]bool // tokens of holds
	settled bool           // faults are over, and what they have left behind is gone
}

// kept is a hold that a process has.
type kept struct {
	path   string
	token  int64
	lease  *locks.Lease
	from   time.Duration
	isOver func() bool
}

// isOver reports whether a hold is over for its process, or was ended by an operator: then others may hold the same before it knows.
func (m *member) isOver(lease *locks.Lease) func() bool {
	return func() bool { return lease.Err() != nil || m.isBroken(lease.Token()) }
}

func (m *member) isBroken(token int64) bool {
	m.all.Lock()
	defer m.all.Unlock()
	return m.all.operators.broken[token]
}

// operates prepares locks in either order, and the operator.
func (m *member) operates() error {
	var both []*locks.InterProcessMutex
	for _, path := range crossed {
		mutex, err := locks.NewInterProcessMutex(m.client, path)
		if err != nil {
			return err
		}
		both = append(both, mutex)
	}
	m.acts["crossing"] = func(ctx context.Context, random *rand.Rand) {
		first := random.IntN(2)
		if random.IntN(2) == 0 {
			m.cross(ctx, both[first], both[1-first], crossed[first], crossed[1-first], upTo(random, 500*time.Millisecond), upTo(random, 15*time.Second))
			return
		}
		if random.IntN(2) == 0 { // or both together
			m.crossBoth(ctx, both[first], both[1-first], upTo(random, 10*time.Second))
			return
		}
		var all sync.WaitGroup // or two goroutines that have nothing to do with each other
		for i, mutex := range both {
			mine := rand.New(rand.NewPCG(random.Uint64(), 0))
			all.Go(func() { m.hold(ctx, mine, crossed[i], true, mutex, upTo(mine, 8*time.Second), nil) })
		}
		all.Wait()
	}
	if m.c.Index == 0 && m.o.plays("operator") {
		m.serve = append(m.serve, m.operate)
	}
	return nil
}

// cross takes one lock, and another one under it if that comes in time.
func (m *member) cross(ctx context.Context, first, second locks.InterProcessLock, a, b string, pause, patience time.Duration) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	outer, err := first.Acquire(waiting)
	if err != nil {
		m.logf("%s: %v", a, err)
		return
	}
	m.held(ctx, a, true, outer, 0, func(held context.Context) {
		sleep(held, pause)
		wait := m.waits(outer, b)
		waiting, cancel := context.WithTimeout(held, patience)
		defer cancel()
		inner, err := second.Acquire(waiting)
		wait(err == nil)
		if err != nil {
			m.logf("%s under %s: %v", b, a, err)
			return
		}
		m.held(ctx, b, true, inner, pause, nil)
	})
}

// crossBoth takes two locks as one.
func (m *member) crossBoth(ctx context.Context, a, b locks.InterProcessLock, patience time.Duration) {
	both, err := locks.NewInterProcessMultiLock(noted{a, m}, noted{b, m})
	if err != nil {
		m.findf("multi-lock: %v", err)
		return
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lease, err := both.Acquire(waiting)
	if err != nil {
		m.logf("multi-lock: %v", err)
		return
	}
	var leave []func()
	for i, one := range lease.Leases() { // in the order of the paths
		leave = append(leave, m.enter(crossed[i], true, one), m.keeps(crossed[i], one))
	}
	select {
	case <-time.After(patience / 10):
	case <-lease.Done():
	}
	for _, leave := range leave {
		leave()
	}
	m.logf("multi-lock: %v", lease.Release(ctx))
}

// noted is a lock whose waits under another lock are noted.
type noted struct {
	locks.InterProcessLock

	m *member
}

func (n noted) Acquire(ctx context.Context) (*locks.Lease, error) {
	under := locks.LeaseFrom(ctx)
	if under == nil {
		return n.InterProcessLock.Acquire(ctx)
	}
	wait := n.m.waits(under, n.Path())
	lease, err := n.InterProcessLock.Acquire(ctx)
	wait(err == nil)
	return lease, err
}

// waits notes that a lease's goroutine waits for another lock, until ended is called.
func (m *member) waits(under *locks.Lease, path string) (ended func(granted bool)) {
	w := &blocked{under: under.Token(), path: path, from: m.w.Elapsed()}
	m.all.Lock()
	defer m.all.Unlock()
	m.all.operators.waits = append(m.all.operators.waits, w)
	return func(granted bool) {
		m.all.Lock()
		defer m.all.Unlock()
		w.to, w.granted = m.w.Elapsed(), granted
	}
}

// keeps notes that a process has a hold, until leave is called.
func (m *member) keeps(path string, lease *locks.Lease) (leave func()) {
	h := &kept{path, lease.Token(), lease, m.w.Elapsed(), m.isOver(lease)}
	m.all.Lock()
	defer m.all.Unlock()
	if m.all.operators.holds == nil {
		m.all.operators.holds = make(map[*kept]bool)
	}
	m.all.operators.holds[h] = true
	return func() {
		m.all.Lock()
		defer m.all.Unlock()
		delete(m.all.operators.holds, h)
	}
}

// operator is a client of its own, with the tools of curatorctl.
type operator struct {
	*member

	root, client *framework.Framework // client has the fleet's namespace
}

// connectOperator returns a client of all servers, which no fault of a client reaches.
func (m *member) connectOperator(ctx context.Context) (*operator, error) {
	client, err := framework.Connect(ctx, m.w.Servers.ConnectString(), framework.WithDialer(m.w.Servers.Dial),
		framework.WithLogger(slog.New(slog.DiscardHandler)), framework.WithSessionTimeout(6*time.Second), framework.WithAuth("digest", credential))
	if err != nil {
		return nil, err
	}
	o := &operator{member: m, root: client, client: client}
	if m.o.is("namespace", "app") {
		if o.client, err = client.UsingNamespace("app"); err != nil {
			return nil, errors.Join(err, client.Close())
		}
	}
	return o, nil
}

// operate looks, and acts, at random moments.
func (m *member) operate(ctx context.Context) {
	o, err := m.connectOperator(ctx)
	if err != nil {
		m.logf("no operator: %v", err)
		return
	}
	defer o.root.Close()
	random := rand.New(rand.NewPCG(uint64(m.w.Elapsed()), 3))
	for ctx.Err() == nil {
		sleep(ctx, upTo(random, 4*time.Second))
		o.look(ctx, random)
		if m.o.is("operator", "acts") {
			o.act(ctx, random)
		}
	}
}

// act asks a holder to give way, or deletes its znode.
func (o *operator) act(ctx context.Context, random *rand.Rand) {
	path := breakable[random.IntN(len(breakable))]
	found, err := inspect.At(ctx, o.client, path)
	for _, r := range found {
		i := slices.IndexFunc(r.Participants, func(p locks.Participant) bool { return p.Holds })
		switch {
		case i < 0:
		case random.IntN(2) == 0:
			o.all.asks(r.Participants[i].Token)
			o.logf("revokes %s: %v", r.Participants[i].Path, locks.AttemptRevoke(ctx, o.client, r.Participants[i].Path))
		default:
			o.breaks(ctx, r.Participants[i])
		}
	}
	if err != nil {
		o.logf("looks at %s: %v", path, err)
	}
}

func (o *operator) breaks(ctx context.Context, p locks.Participant) {
	o.all.Lock()
	if o.all.operators.broken == nil {
		o.all.operators.broken = make(map[int64]bool)
	}
	o.all.operators.broken[p.Token] = true
	o.all.Unlock()
	err := o.client.Delete(ctx, p.Path)
	o.logf("breaks %s, token %#x: %v", p.Path, p.Token, err)
	if err == nil {
		o.write(ctx, p.Token)
	}
}

// write has the holder that was broken write under its lease, of whose end it may not yet have heard.
func (o *operator) write(ctx context.Context, token int64) {
	var lease *locks.Lease
	o.all.Lock()
	for h := range o.all.operators.holds {
		if h.token == token {
			lease = h.lease
		}
	}
	o.all.Unlock()
	if lease == nil {
		return
	}
	if lease.Err() == nil {
		o.all.chance(ruleRefused)
	}
	_, err := lease.Transact(ctx, framework.CreateOp("/broken-", nil, framework.WithMode(framework.PersistentSequential)))
	if o.logf("the broken holder writes: %v", err); err == nil {
		o.findf("the holder with token %#x has written after its end", token)
	}
}

// look asks one question.
func (o *operator) look(ctx context.Context, random *rand.Rand) {
	before, from := o.connections(), o.w.Elapsed()
	noted := func(by string, sessions []inspect.Session) {
		o.note(by, from, before, sessions)
	}
	switch random.IntN(7) {
	case 6:
		found, err := o.consult(ctx)
		if ctx.Err() != nil {
			return
		}
		o.logf("doctor: %+v, %v", found, err)
		o.judgeDoctor(found, noted)
	case 0, 1, 2:
		census, err := inspect.Sessions(ctx, o.client)
		if ctx.Err() != nil {
			return
		}
		var all []inspect.Session
		for _, s := range census.Sessions {
			all = append(all, *s)
		}
		noted("sessions", all)
		o.logf("sessions: %v", err)
	case 3:
		found, err := inspect.Deadlocks(ctx, o.client, "/")
		o.logf("deadlocks: %v, %v", found, err)
		for _, d := range found {
			o.judgeDeadlock(d, from)
		}
	default:
		path := explained[random.IntN(len(explained))]
		opts := []inspect.Option{inspect.WithDeadlocks("/")}
		if random.IntN(2) == 0 {
			opts = append(opts, inspect.LookingTwice())
		}
		limit := time.Duration(0)
		if random.IntN(2) == 0 {
			limit = time.Second + upTo(random, 10*time.Second)
			opts = append(opts, inspect.LongerThan(limit))
		}
		e, err := inspect.Explain(ctx, o.client, path, opts...)
		if err != nil {
			o.logf("explain %s: %v", path, err)
			return
		}
		o.logf("explain %s: %s: %s", path, e.Answer, e)
		o.judgeExplanation(e, from, limit, noted)
	}
}

// consult asks the doctor. What is wrong with the version of the servers is so at all times.
func (o *operator) consult(ctx context.Context) ([]doctor.Finding, error) {
	e := doctor.Ask(ctx, o.client)
	d := doctor.New("servers", e)
	if !e.Quorum {
		return d.Findings("version"), nil
	}
	err := d.Examine(ctx, o.client, "/")
	return d.Findings("version"), err
}

// judgeDoctor finds what is called wrong and is not: only servers that fail are, and sessions without clients. What is not known has a server that
// does not answer.
func (o *operator) judgeDoctor(found []doctor.Finding, noted func(string, []inspect.Session)) {
	for _, f := range found {
		switch {
		case f.About == "session":
			noted("doctor", []inspect.Session{{ID: f.Where, Life: inspect.LifeLost}})
		case f.About != "server" && f.About != "unknown" || o.isSound():
			o.findf("doctor: %+v", f)
		}
	}
}

// connections are those that the servers have, by session.
func (o *operator) connections() map[int64]string {
	all := make(map[int64]string)
	for _, s := range o.w.Servers.Servers() {
		for _, session := range s.Sessions() {
			if session.Addr != "" {
				all[session.ID] += fmt.Sprintf("%s at server %d", session.Addr, s.ID())
			}
		}
	}
	return all
}

// note keeps what was said of sessions.
func (o *operator) note(by string, from time.Duration, before map[int64]string, sessions []inspect.Session) {
	after, until := o.connections(), o.w.Elapsed()
	o.all.Lock()
	defer o.all.Unlock()
	for _, s := range sessions {
		id, _ := inspect.ParseSession(s.ID)
		t := told{by: by, from: from, until: until, session: id, life: s.Life, timeout: time.Duration(s.Timeout) * time.Millisecond}
		t.isApart = before[id] == "" && after[id] == ""
		if before[id] == after[id] {
			t.connection = after[id]
		}
		o.all.operators.told = append(o.all.operators.told, t)
	}
}

// judgeExplanation judges what was said of one path.
func (o *operator) judgeExplanation(e inspect.Explanation, from, limit time.Duration, noted func(string, []inspect.Session)) {
	by := "explain " + e.Path
	var all, alive []inspect.Session
	lives := make(map[string]inspect.Life) // of the owners of znodes
	waits := false
	for _, s := range e.Sessions {
		all = append(all, s)
	}
	for _, r := range e.Recipes {
		o.judgeHolders(by, r, from)
		for _, p := range r.Participants {
			s := e.Sessions[inspect.SessionText(p.Session)]
			lives[p.Path] = s.Life
			if p.Session != 0 && r.Kind.IsLock() {
				alive = append(alive, inspect.Session{ID: inspect.SessionText(p.Session), Timeout: s.Timeout, Life: inspect.LifeAlive})
			}
			waits = waits || !p.Holds && time.Since(p.Since) > limit
		}
	}
	noted(by, all)
	if e.Answer == inspect.No { // so all of them answer
		noted(by+", no", alive)
	}
	for _, f := range e.Findings {
		life := lives[f.Node]
		switch f.Reason {
		case inspect.ReasonLost, inspect.ReasonSilent:
			if life != inspect.LifeLost && life != inspect.LifeSilent {
				o.findf("%s: the client of %s is %s, and %q", by, f.Node, life, f.Reason)
			}
		case inspect.ReasonOverstays, inspect.ReasonAsked:
			if limit == 0 || !waits {
				o.findf("%s: %s, and no contender waits for longer than %v", by, f.Text, limit)
			}
		case inspect.ReasonDeadlock:
			o.judgeStuck(by, e, f, from)
		case inspect.ReasonForeign, inspect.ReasonUnreadable, inspect.ReasonPaused, inspect.ReasonMixed:
			o.findf("%s: %s", by, f.Text)
		case inspect.ReasonUnknown:
			if f.Unknown == "" {
				o.findf("%s: it does not say what is not known: %s", by, f.Text)
			}
		default:
			if f.Trouble {
				o.findf("%s: %q is trouble: %s", by, f.Reason, f.Text)
			}
		}
	}
}

// judgeHolders finds a holder of a mutex that does not hold it. A server that lags may say what was.
func (o *operator) judgeHolders(by string, r inspect.Recipe, from time.Duration) {
	if r.Kind != inspect.Mutex || !o.isSound() {
		return
	}
	const late = time.Second // for which a server that is well may be behind
	o.all.Lock()
	holds := slices.Collect(maps.Keys(o.all.operators.holds))
	o.all.Unlock()
	for _, h := range holds {
		if h.path != r.Path || h.from+late > from || h.isOver() {
			continue
		}
		o.all.chance(ruleHolders)
		for _, p := range r.Participants {
			if p.Holds != (p.Token == h.token) {
				o.findf("%s: %s, token %#x, is called a holder: %t, while %#x is", by, p.Path, p.Token, p.Holds, h.token)
			}
		}
	}
}

// isSound reports whether no fault of a server can be under way.
func (o *operator) isSound() bool {
	return o.all.operators.settled && !o.o.is("faults", "restores") || o.o.is("faults", "clients") || o.o.is("faults", "processes")
}

// stands is how long a deadlock stands before it is told.
const stands = 5 * time.Second

// isBlocked reports whether a hold waits for a lock, or for any if path is "", since a look. What a client has given up, or a dead one, is there
// until its session ends.
func (o *operator) isBlocked(under int64, path string, from time.Duration) bool {
	o.all.Lock()
	defer o.all.Unlock()
	again := from + stands
	return slices.ContainsFunc(o.all.operators.waits, func(w *blocked) bool {
		if w.under != under || path != "" && w.path != path || w.from > again {
			return false
		}
		return w.to == 0 || w.to > again || !w.granted && w.to > again-20*time.Second
	})
}

// lives reports whether a session is that of a process.
func (o *operator) lives(session int64) bool {
	o.all.Lock()
	defer o.all.Unlock()
	for _, m := range o.all.members {
		if s := m.c.Session(); s.ID() == session && s.Err() == nil {
			return true
		}
	}
	return false
}

// judgeDeadlock finds a cycle in which a member goes on.
func (o *operator) judgeDeadlock(d inspect.Deadlock, from time.Duration) {
	for i, w := range d.Waits {
		if !o.lives(w.Holder.Session) { // what it has begun to acquire is there until its session ends
			continue
		}
		if next := d.Waits[(i+1)%len(d.Waits)].Path; !o.isBlocked(w.Holder.Token, next, from) {
			o.findf("it is called a deadlock, and the hold %#x of %s does not wait for %s: %v", w.Holder.Token, w.Path, next, d)
		}
	}
}

// judgeStuck judges a deadlock of an explanation, which names a hold.
func (o *operator) judgeStuck(by string, e inspect.Explanation, f inspect.Finding, from time.Duration) {
	for _, r := range e.Recipes {
		for _, p := range r.Participants {
			if p.Path == f.Node && (!o.lives(p.Session) || o.isBlocked(p.Token, "", from)) {
				return
			}
		}
	}
	o.findf("%s: the hold %s waits for nothing: %s", by, f.Node, f.Text)
}

// judgeTold judges what was said of sessions by when servers have heard them.
func (all *truth) judgeTold(w *zksim.World, m *member) {
	heard := make(map[int64][]time.Duration)
	for _, e := range w.Servers.Log() {
		switch e.Kind {
		case zkserver.Accepted, zkserver.Served, zkserver.Faulted, zkserver.SessionOpened, zkserver.SessionTaken:
			heard[e.SessionID] = append(heard[e.SessionID], e.At)
		default:
		}
	}
	isSound := m.o.is("faults", "clients") || m.o.is("faults", "processes")
	for _, t := range all.operators.told {
		since := func(longest time.Duration) (times []time.Duration) {
			for _, at := range heard[t.session] {
				if at >= t.from-longest && at <= t.until {
					times = append(times, at)
				}
			}
			return times
		}
		said := fmt.Sprintf("%s, from %v to %v: the client of %#x is called %s", t.by, t.from, t.until, t.session, t.life)
		timeout := cmp.Or(t.timeout, 10*time.Second)
		switch t.life {
		case inspect.LifeLost:
			all.chance(ruleDead)
			if t.connection != "" {
				w.Findf("%s, and is connected from %s", said, t.connection)
			}
		case inspect.LifeAlive:
			all.chance(ruleAlive)
			if longest := timeout + time.Second + 3*tick/2; len(since(longest)) == 0 { // the leader tells whole seconds, and knows it to a tick
				w.Findf("%s, and was not heard for %v", said, longest)
			}
			if t.isApart && len(since(0)) == 0 {
				w.Findf("%s, and has no connection", said)
			}
		case inspect.LifeSilent:
			if isSound && t.connection != "" {
				all.chance(ruleSilent)
			}
			if times := since(timeout / 2); isSound && t.connection != "" && isSteady(times, t.from-timeout/2, t.until, timeout/2-tick) {
				w.Findf("%s, and was heard at %v", said, times)
			}
		default:
		}
	}
}

// tick is that of the servers.
const tick = 500 * time.Millisecond

// isSteady reports whether there is no long time between two of these times.
func isSteady(times []time.Duration, from, until, longest time.Duration) bool {
	for _, at := range append(times, until) {
		if at-from > longest {
			return false
		}
		from = at
	}
	return true
}

// settleOperator has an operator look when all is well, and when it is not.
func (all *truth) settleOperator(ctx context.Context, w *zksim.World, m *member) {
	if !m.o.plays("operator") {
		return
	}
	if !m.o.is("faults", "restores") {
		all.judgeTold(w, m)
	}
	all.operators.settled = true
	all.operators.told = nil
	o, err := m.connectOperator(ctx)
	if err != nil {
		w.Findf("no operator: %v", err)
		return
	}
	defer o.root.Close()
	o.findWell(ctx)
	members := all.sorted()
	random := rand.New(rand.NewPCG(uint64(w.Elapsed()), 4))
	switch n := random.IntN(6); {
	case n == 5:
		o.findIll(ctx, random)
	case n == 0:
		o.findLoad(ctx, members)
	case n == 1:
		o.findStranger(ctx)
	case len(members) < 2: // it was made smaller
	case n == 2:
		o.findDeadlock(ctx, members[0], members[1])
	default:
		o.findNone(ctx, random, members[0], members[1])
	}
}

// findWell finds what is called wrong, or unknown, when nothing is.
func (o *operator) findWell(ctx context.Context) {
	o.all.chance(ruleWell)
	census, err := inspect.Sessions(ctx, o.client)
	if err != nil || !census.Whole {
		o.findf("sessions: whole: %t, %v, %v", census.Whole, census.Missing, err)
	}
	for _, s := range census.Sessions {
		if s.Life != inspect.LifeAlive {
			o.findf("sessions: %+v, and all clients are well", s)
		}
	}
	isGone := func(err error) bool { return errors.Is(err, framework.ErrNoNode) } // an empty folder is deleted, that of the namespace, too
	if found, err := o.consult(ctx); err != nil && !isGone(err) || len(found) > 0 {
		o.findf("doctor: %+v, %v, and all is well", found, err)
	}
	for _, path := range explained {
		e, err := inspect.Explain(ctx, o.client, path)
		if err == nil && (e.Answer != inspect.No || e.Unknown != "") || err != nil && !isGone(err) {
			o.findf("explain %s: %s, %v: %s", path, e.Answer, err, e)
		}
	}
}

// findIll has a client that holds a lock die, and a server stop, or not answer. Then it is known that the client is gone, or nothing is.
func (o *operator) findIll(ctx context.Context, random *rand.Rand) {
	o.all.chance(ruleIll)
	var gone atomic.Bool
	var last net.Conn // as it has several only one after the other
	servers, path := o.w.Servers, "/load"
	dial := framework.WithDialer(func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		if gone.Load() {
			return nil, net.ErrClosed
		}
		last, err = servers.Dial(ctx, network, addr)
		return last, err
	})
	holder, err := framework.Connect(ctx, servers.ConnectString(), dial, framework.WithLogger(slog.New(slog.DiscardHandler)), framework.WithSessionTimeout(30*time.Second),
		framework.WithAuth("digest", credential))
	if err != nil {
		o.findf("no client: %v", err)
		return
	}
	session := holder.Session()
	lock, err1 := locks.NewInterProcessMutex(holder, o.client.FullPath(path))
	waiter, err2 := locks.NewInterProcessMutex(o.client, path)
	if err := errors.Join(err1, err2); err != nil {
		o.findf("%s: %v", path, err)
		return
	}
	if _, err := lock.Acquire(ctx); err != nil {
		o.findf("%s: %v", path, err)
	}
	gone.Store(true)
	closed := last.Close()
	away := servers.Followers()[slices.IndexFunc(servers.Followers(), func(s *zkserver.Server) bool {
		return !slices.ContainsFunc(s.Sessions(), func(at zkserver.SessionInfo) bool {
			return at.Addr != "" && at.ID == o.root.Session().ID()
		})
	})]
	address := strings.Split(servers.ConnectString(), ",")[away.ID()-1]
	life, reason, about := inspect.LifeLost, inspect.ReasonLost, "session"
	back := away.Restart
	if random.IntN(2) == 0 {
		err = away.Stop()
	} else {
		life, reason, about = inspect.LifeUnknown, inspect.ReasonUnknown, "unknown"
		away.Pause()
		back = func() error { away.Resume(); return nil }
	}
	var all sync.WaitGroup
	all.Go(func() {
		lease, err := waiter.Acquire(ctx)
		if err == nil {
			err = lease.Release(ctx)
		}
		o.logf("behind the client that is gone: %v", err)
	})
	time.Sleep(tick)
	o.findDead(ctx, path, session.ID(), address, life, reason, about)
	ended := framework.EndSession(ctx, servers.ConnectString(), session.ID(), session.Password(), framework.WithDialer(servers.Dial),
		framework.WithLogger(slog.New(slog.DiscardHandler)))
	if err := errors.Join(closed, err, back(), ended); err != nil {
		o.findf("%s: %v", address, err)
	}
	all.Wait()
	o.logf("the client that is gone: %v", holder.Close())
	time.Sleep(10 * time.Second) // the others come back
}

// findDead finds that tools say something else of a holder that is gone, and of a server that is away.
func (o *operator) findDead(ctx context.Context, path string, session int64, server string, life inspect.Life, reason inspect.Reason, about string) {
	found, err := o.consult(ctx)
	for _, kind := range []string{"server", about} {
		is := func(f doctor.Finding) bool {
			return f.About == kind && (kind == "unknown" || f.Where == server || f.Where == inspect.SessionText(session))
		}
		if err != nil || !slices.ContainsFunc(found, is) {
			o.findf("doctor: %+v, %v, and nothing of the kind %s, with %s away", found, err, kind, server)
		}
	}
	census, _ := inspect.Sessions(ctx, o.client) // which says what is missing
	if got := census.Life(session); got != life {
		o.findf("sessions: the client of %#x is gone, with %s away, and is called %s, not %s", session, server, got, life)
	}
	e, err := inspect.Explain(ctx, o.client, path)
	if err != nil || e.Findings[0].Reason != reason || e.Answer == inspect.No {
		o.findf("explain %s: %s, %v, expected the reason %q, with %s away: %s", path, e.Answer, err, reason, server, e)
	}
}

// findLoad compares what contention says with holds of a known length.
func (o *operator) findLoad(ctx context.Context, members []*member) {
	o.all.chance(ruleLoad)
	const path, rounds, lasts = "/load", 3, time.Second
	traffic, err := inspect.Follow(ctx, o.client, "/")
	if err != nil {
		o.findf("contention: %v", err)
		return
	}
	defer traffic.Close()
	var all sync.WaitGroup
	for _, m := range members {
		mutex, err := locks.NewInterProcessMutex(m.client, path)
		if err != nil {
			o.findf("%s: %v", path, err)
			return
		}
		all.Go(func() {
			for range rounds {
				if err := mutex.Do(ctx, func(context.Context) error { time.Sleep(lasts); return nil }); err != nil {
					m.findf("%s: %v", path, err)
				}
				time.Sleep(lasts / 10)
			}
		})
	}
	all.Wait()
	time.Sleep(lasts)
	said := traffic.Take()
	i := slices.IndexFunc(said.Locks, func(l inspect.Load) bool { return l.Path == path })
	if i < 0 || said.Gaps > 0 || said.Unknown != "" {
		o.findf("contention: %+v", said)
		return
	}
	l, turns := said.Locks[i], rounds*len(members)
	near := func(seconds float64) bool { return seconds > 0.9*lasts.Seconds() && seconds < 1.1*lasts.Seconds() }
	if l.Turns != turns || l.Losses != 0 || l.Held > 1 || l.Most >= len(members) || l.Hold.Count != turns || !near(l.Hold.P50) || !near(l.Hold.Max) {
		o.findf("contention: %+v after %d holds of %v", l, turns, lasts)
	}
}

// findDeadlock has two clients wait for each other. An operator must see it, and they go on when it is broken.
func (o *operator) findDeadlock(ctx context.Context, a, b *member) {
	o.all.chance(ruleDeadlock)
	const patience = time.Minute
	from := o.w.Elapsed()
	var all sync.WaitGroup
	for i, m := range []*member{a, b} {
		first, err1 := locks.NewInterProcessMutex(m.client, crossed[i])
		second, err2 := locks.NewInterProcessMutex(m.client, crossed[1-i])
		if err := errors.Join(err1, err2); err != nil {
			o.findf("no deadlock: %v", err)
			return
		}
		all.Go(func() { m.cross(ctx, first, second, crossed[i], crossed[1-i], time.Second, patience) })
	}
	time.Sleep(2 * time.Second)
	found, err := inspect.Deadlocks(ctx, o.client, "/")
	if err != nil || len(found) != 1 || !found[0].Certain || len(found[0].Waits) != 2 {
		o.findf("two clients wait for each other, and there is told: %v, %v", found, err)
	}
	e, err := inspect.Explain(ctx, o.client, crossed[0], inspect.WithDeadlocks("/"))
	if err != nil || e.Answer != inspect.Yes || e.Findings[0].Reason != inspect.ReasonDeadlock {
		o.findf("explain %s: %s, %v, and it is in a deadlock: %s", crossed[0], e.Answer, err, e)
	}
	for _, r := range e.Recipes {
		o.judgeHolders("explain "+r.Path, r, o.w.Elapsed())
	}
	for _, d := range found {
		o.judgeDeadlock(d, o.w.Elapsed()-2*stands)
		o.breaks(ctx, d.Waits[0].Holder)
	}
	all.Wait()
	if passed := o.w.Elapsed() - from; passed > patience {
		o.findf("two clients have waited for each other for %v, although that was broken", passed)
	}
}

// findNone has clients that look as if they waited for each other, and go on.
func (o *operator) findNone(ctx context.Context, random *rand.Rand, a, b *member) {
	o.all.chance(ruleNoDeadlock)
	const lasts = 9 * time.Second
	var all sync.WaitGroup
	begin := func(m *member, path string, lock locks.InterProcessLock, during func(context.Context)) {
		all.Go(func() {
			lease, err := lock.Acquire(ctx)
			if err != nil {
				m.findf("%s: %v", path, err)
				return
			}
			m.held(ctx, path, path != "/semaphore", lease, lasts, during)
		})
		time.Sleep(100 * time.Millisecond)
	}
	mutex := func(m *member, path string) locks.InterProcessLock {
		lock, err := locks.NewInterProcessMutex(m.client, path)
		if err != nil {
			m.findf("%s: %v", path, err)
		}
		return lock
	}
	permits, err := locks.NewInterProcessSemaphoreV2(a.client, "/semaphore", locks.FixedLeases(2))
	if err != nil {
		o.findf("/semaphore: %v", err)
		return
	}
	switch random.IntN(3) {
	case 0: // a thread of each holds what another thread of the other waits for
		begin(a, crossed[0], mutex(a, crossed[0]), nil)
		begin(b, crossed[1], mutex(b, crossed[1]), nil)
		begin(a, crossed[1], mutex(a, crossed[1]), nil)
		begin(b, crossed[0], mutex(b, crossed[0]), nil)
	case 1: // one of two permits comes back
		begin(b, "/semaphore", permits, nil)
		begin(b, crossed[1], mutex(b, crossed[1]), func(held context.Context) {
			time.Sleep(time.Second)
			b.permits(held, random, permits)
		})
		begin(a, "/semaphore", permits, func(held context.Context) {
			lease, err := mutex(a, crossed[1]).Acquire(held)
			if err == nil {
				err = lease.Release(ctx)
			}
			a.logf("%s: %v", crossed[1], err)
		})
		time.Sleep(time.Second)
	default: // they give up between two looks
		for i, m := range []*member{a, b} {
			first, second := mutex(m, crossed[i]), mutex(m, crossed[1-i])
			all.Go(func() { m.cross(ctx, first, second, crossed[i], crossed[1-i], time.Second, stands) })
		}
		time.Sleep(2 * time.Second)
	}
	found, err := inspect.Deadlocks(ctx, o.client, "/")
	if err != nil || len(found) > 0 {
		o.findf("no two clients wait for each other, and there is told: %v, %v", found, err)
	}
	all.Wait()
}

// findStranger has a znode keep contenders out.
func (o *operator) findStranger(ctx context.Context) {
	o.all.chance(ruleStranger)
	lock, err := locks.NewInterProcessMutex(o.client, "/load")
	path := "/load/backup-lock-0000000000"
	if err == nil {
		_, err = o.client.Create(ctx, path, nil, framework.CreatingParentsIfNeeded())
	}
	if err != nil {
		o.findf("%s: %v", path, err)
		return
	}
	waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() {
		lease, err := lock.Acquire(waiting)
		if err == nil {
			err = lease.Release(ctx)
		}
		o.logf("behind %s: %v", path, err)
	})
	time.Sleep(time.Second)
	e, err := inspect.Explain(ctx, o.client, "/load")
	if err != nil || e.Answer != inspect.Yes || e.Findings[0].Reason != inspect.ReasonForeign || e.Findings[0].Node != path {
		o.findf("explain /load: %s, %v, and %s keeps contenders out: %s", e.Answer, err, path, e)
	}
	if err := o.client.Delete(ctx, path); err != nil {
		o.findf("%s: %v", path, err)
	}
	all.Wait()
}
