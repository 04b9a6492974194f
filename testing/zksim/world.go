// SPDX-License-Identifier: Apache-2.0

package zksim

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/chance"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
)

// voters is how many servers there are beside observers, the others are their timing.
const (
	voters         = 3
	tick           = 500 * time.Millisecond
	syncLimit      = 4
	longestSession = time.Minute
)

// World is one history while it is played. Its methods may be called from any goroutine.
type World struct {
	Servers *zkserver.Ensemble

	blank     *zkserver.Backup // of a server without data
	began     time.Time
	seed      uint64
	program   Program
	processes []*Process
	drawn     int            // how many clients there were before some were left out
	size      int            // how many there are
	remains   sync.WaitGroup // of killed processes, and those that begin again
	restores  atomic.Int32   // how often all servers have come back from a backup

	mu       sync.Mutex    // guards all below
	ghosts   time.Duration // for how long sessions of killed processes may go on
	findings []string
	log      []entry
	holds    []*Hold
	tokens   map[string]int64 // the largest of each key
	states   []any            // of programs
}

// Client is the first client of a process.
type Client struct {
	*framework.Framework

	Index   int // from 0; a process that begins again has the number of the one that was killed
	Process *Process

	host *host
}

type entry struct {
	at   time.Duration
	what string
}

// Findf reports that something is wrong.
func (w *World) Findf(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	w.Logf("FOUND: %s", what)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.findings = append(w.findings, what)
}

// Logf adds a line to the log.
func (w *World) Logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, entry{at: time.Since(w.began), what: fmt.Sprintf(format, args...)})
}

func (w *World) must(err error) {
	if err != nil {
		w.Findf("the simulation: %v", err)
	}
}

// Hold is something that a client holds, in the words of the recipe.
type Hold struct {
	Key       string
	Client    int
	Exclusive bool  // no other client may hold it meanwhile
	Places    int   // how many may hold it together; 0 for any number
	Token     int64 // rises from one exclusive hold to the next; 0 for none
	IsOver    func() bool
}

// Enter tells that a client holds something, until leave is called, or IsOver says that the client knows the hold to be over. Two
// holds overlap only if they do for longer than an instant: both may hear of something at the same time.
func (w *World) Enter(h Hold) (leave func()) {
	w.Logf("client %d holds %s (exclusive: %t, token %#x)", h.Client, h.Key, h.Exclusive, h.Token)
	mine := &h
	w.mu.Lock()
	if h.Exclusive && h.Token != 0 {
		if before := w.tokens[h.Key]; h.Token <= before {
			defer w.Findf("client %d holds %s with token %#x, after %#x", h.Client, h.Key, h.Token, before)
		}
		w.tokens[h.Key] = max(w.tokens[h.Key], h.Token)
	}
	w.holds = append(w.holds, mine)
	w.mu.Unlock()
	time.Sleep(time.Nanosecond)
	w.judge(mine)
	return func() {
		w.Logf("client %d leaves %s (over: %t)", h.Client, h.Key, h.IsOver())
		w.mu.Lock()
		defer w.mu.Unlock()
		w.holds = slices.DeleteFunc(w.holds, func(other *Hold) bool { return other == mine })
	}
}

// judge reports with whom a hold is at odds.
func (w *World) judge(h *Hold) {
	if h.IsOver() {
		return
	}
	w.mu.Lock()
	others := slices.Clone(w.holds)
	w.mu.Unlock()
	together := 1
	for _, other := range others {
		if other == h || other.Key != h.Key || other.IsOver() {
			continue
		}
		if together++; h.Exclusive || other.Exclusive {
			w.Findf("clients %d and %d both hold %s (exclusive: %t and %t)", h.Client, other.Client, h.Key, h.Exclusive, other.Exclusive)
		}
	}
	if h.Places > 0 && together > h.Places {
		w.Findf("%d clients hold %s, which has %d places", together, h.Key, h.Places)
	}
}

// play plays a history in a bubble.
func play(t *testing.T, drawn plan, p Program) *History {
	t.Helper()
	release := oneProcessor()
	defer release()
	h := new(History)
	synctest.Test(t, func(t *testing.T) {
		ensemble, err := zkserver.NewEnsemble(voters, zkserver.WithObservers(drawn.observers), zkserver.WithoutListener(), zkserver.WithTick(tick),
			zkserver.WithSyncLimit(syncLimit), zkserver.WithSessionTimeouts(0, longestSession),
			zkserver.WithContainerCheckInterval(2*time.Second)) // so that folders go, and are made again
		if err != nil {
			t.Fatal(err)
		}
		w := &World{Servers: ensemble, blank: ensemble.Server(0).Backup(), began: time.Now(), seed: drawn.seed, program: p, drawn: p.Clients, size: len(drawn.clients), tokens: make(map[string]int64)}
		w.play(t.Context(), drawn)
		if err := ensemble.Close(); err != nil {
			t.Error(err)
		}
		w.fill(h)
	})
	return h
}

func (w *World) play(ctx context.Context, drawn plan) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	for _, planned := range drawn.clients {
		p := &Process{w: w, planned: planned, working: working}
		w.processes = append(w.processes, p)
		if !p.start() {
			w.close()
			return
		}
	}
	ruled := w.judgeAlways()
	w.restrain(100*w.program.Requests, stop)
	var actors sync.WaitGroup
	for _, p := range w.processes {
		actors.Go(p.work)
	}
	w.disturb(drawn.faults)
	w.await("an action has not ended", &actors)
	stop()
	w.await("an action goes on although its context has ended", &actors)
	for _, p := range w.processes {
		p.end()
	}
	w.await("a killed process has not ended", &w.remains)
	if _, err := w.Servers.AwaitLeader(ctx); err != nil {
		w.Findf("the simulation: %v", err)
		return
	}
	time.Sleep(10 * time.Second) // clients notice what they have lost at a ping
	for _, p := range w.processes {
		if c := p.living(); c != nil {
			w.reconnected(ctx, c)
		}
	}
	ruled()
	if w.program.Settled != nil {
		w.program.Settled(chance.With(ctx, chance.New(w.seed, math.MaxUint64)), w)
	}
	w.apply(w.program.Rules)
	w.close()
	w.moderate(w.program.Requests)
}

// judgeAlways applies the rules of the program again and again, until end is called.
func (w *World) judgeAlways() (end func()) {
	const pause = 100 * time.Millisecond
	if len(w.program.Rules) == 0 {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.Background())
	var judge sync.WaitGroup
	judge.Go(func() {
		for ctx.Err() == nil {
			w.apply(w.program.Rules)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	})
	return func() {
		stop()
		judge.Wait()
	}
}

// apply finds what rules find, once each.
func (w *World) apply(rules []func(*World) error) {
	for _, rule := range rules {
		if err := rule(w); err != nil && !w.knows(err.Error()) {
			w.Findf("%v", err)
		}
	}
}

func (w *World) knows(finding string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.findings, finding)
}

// reconnected finds a client that has no connection, a minute after the servers have a leader.
func (w *World) reconnected(ctx context.Context, c *Client) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.BlockUntilConnected(ctx); err != nil {
		w.Findf("client %d has no connection: %v", c.Index, err)
	}
}

// connect connects one client to all servers, or to one.
func (w *World) connect(ctx context.Context, planned client, on *host, more ...framework.Option) (*framework.Framework, error) {
	d := &dialer{servers: w.Servers, host: on, client: planned.index, first: planned.server, stays: planned.stays}
	opts := append([]framework.Option{
		framework.WithDialer(d.dial), framework.WithLogger(slog.New(slog.DiscardHandler)), framework.WithServerTiming(tick, syncLimit),
		framework.WithSessionTimeout(sessionTimeout), framework.WithRetryPolicy(backoff(chance.Of(ctx))),
	}, slices.Concat(w.program.Options, more)...)
	f, err := framework.Connect(ctx, anyServer, opts...)
	if err != nil {
		return nil, err
	}
	w.Logf("client %d has session %#x (%v), and moves: %t", planned.index, f.Session().ID(), f.Session().Timeout(), !planned.stays)
	return f, nil
}

// backoff is the policy that clients have by default, with pauses that the seed draws.
func backoff(draw *chance.Source) retry.Policy {
	const base, retries = 100 * time.Millisecond, 5
	return retry.PolicyFunc(func(attempt int, _ time.Duration, _ error) (time.Duration, bool) {
		return base * time.Duration(max(1, draw.Below("retry", 2<<attempt).Nanoseconds())), attempt < retries
	})
}

// State returns the one value of its type that belongs to a history: what the clients of a program share.
func State[T any](w *World) *T {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, state := range w.states {
		if state, ok := state.(*T); ok {
			return state
		}
	}
	state := new(T)
	w.states = append(w.states, state)
	return state
}

// Size is how many clients take part. They are fewer than [Program].Clients while a finding is made smaller.
func (w *World) Size() int { return w.size }

// Elapsed is the fake time since the history began.
func (w *World) Elapsed() time.Duration { return time.Since(w.began) }

// disturb has faults begin and end.
func (w *World) disturb(faults []planned) {
	var under sync.WaitGroup
	for _, f := range faults {
		time.Sleep(time.Until(w.began.Add(f.at)))
		w.Logf("%v", f)
		end := w.begin(f)
		under.Go(func() {
			time.Sleep(f.lasts)
			end()
			w.Logf("%s is over", f.kind)
		})
	}
	under.Wait()
}

// await waits for a group, and finds that it lasts longer than it may.
func (w *World) await(what string, group *sync.WaitGroup) {
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		w.Findf("%s %v after the last fault", what, patience)
	}
}

// close closes the clients, and looks for what they have left.
func (w *World) close() {
	for _, p := range w.processes {
		if err := p.close(); err != nil {
			w.Findf("client %d: close: %v", p.planned.index, err)
		}
	}
	w.await("a client that was being connected has not ended", &w.remains)
	time.Sleep(w.ghosts + 2*tick)
	for _, s := range w.Servers.Servers() {
		if got := s.Stats(); got.Ephemerals+got.Watches+got.Sessions > 0 {
			w.Findf("server %d has %+v when all clients are closed", s.ID(), got)
		}
	}
}

// moderate finds seconds in which clients have made more requests than they may: one that repeats what fails must pause.
func (w *World) moderate(most int) {
	requests := make(map[time.Duration]map[int64]int) // by second and session
	for _, e := range w.Servers.Log() {
		if e.Kind != zkserver.Served && e.Kind != zkserver.Accepted || e.Request.Op == zkserver.OpPing {
			continue
		}
		second := e.At.Truncate(time.Second)
		if requests[second] == nil {
			requests[second] = make(map[int64]int)
		}
		if requests[second][e.SessionID]++; requests[second][e.SessionID] == most+1 {
			w.Findf("session %#x has made more than %d requests between %v and %v", e.SessionID, most, second, second+time.Second)
		}
	}
}

// restrain stops a history in which clients make more requests within a second than this. They make them without pauses, so time
// hardly passes, and the history would not come to its end.
func (w *World) restrain(most int, stop func()) {
	var mu sync.Mutex
	var second time.Duration
	requests, isOver := 0, false
	count := func(zkserver.Request) zkserver.Fault {
		mu.Lock()
		defer mu.Unlock()
		if now := w.Elapsed().Truncate(time.Second); now != second {
			second, requests = now, 0
		}
		if requests++; requests == most && !isOver {
			w.Findf("clients have made %d requests between %v and %v", most, second, second+time.Second)
			isOver = true
			stop()
		}
		if isOver { // time passes, also for what stop does not reach
			return zkserver.Delay(time.Second)
		}
		return zkserver.Pass
	}
	for _, s := range w.Servers.Servers() {
		s.Intercept(count)
	}
}

// fill makes the history of what has happened.
func (w *World) fill(h *History) {
	h.Findings, h.Took = w.findings, time.Since(w.began)
	events := w.Servers.Log()
	h.Events = len(events)
	for _, e := range events {
		if e.Kind == zkserver.SessionExpired {
			h.Expired++
		}
	}
	if len(h.Findings) == 0 {
		return
	}
	for _, e := range events {
		if e.Kind == zkserver.Served && (e.Request.Op == zkserver.OpPing || e.Request.Op == zkserver.OpSync) {
			continue
		}
		what := strings.SplitN(e.String(), " ", 3) // its number and its time come first
		w.log = append(w.log, entry{at: e.At, what: what[2]})
	}
	slices.SortStableFunc(w.log, func(a, b entry) int { return int(a.at - b.at) })
	for _, e := range w.log {
		h.Log = append(h.Log, fmt.Sprintf("%v %s", e.at.Round(time.Millisecond), e.what))
	}
}
