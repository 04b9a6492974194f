// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/callscope"
	"github.com/gocurator/curator/recipes/locks"
)

// Deadlock is a cycle of clients that wait for each other. The session of each Holder is the session
// of the next Waiter, and the session of the last Holder is the session of the first Waiter.
type Deadlock struct {
	Waits []Wait `json:"waits"`

	// Certain says that the znodes prove the cycle: each wait was begun under the lease that the one before it waits for. Otherwise it
	// is a guess from sessions, which have more than one thread.
	Certain bool `json:"certain"`
}

// Wait is one step of a [Deadlock].
type Wait struct {
	Path   string            `json:"path"` // of the lock
	Kind   Kind              `json:"kind"`
	Waiter locks.Participant `json:"waiter"`
	Holder locks.Participant `json:"holder"`
}

// Steps describe the sides of the cycle in words.
func (d Deadlock) Steps() (steps []string) {
	for i, w := range d.Waits {
		before := d.Waits[(i+len(d.Waits)-1)%len(d.Waits)]
		steps = append(steps, fmt.Sprintf("%s, session %s, holds %s and waits for %s, for %s, which %s holds",
			Name(w.Waiter), SessionText(w.Waiter.Session), shownPath(before.Path), shownPath(w.Path), agoOf(w.Waiter), Name(w.Holder)))
	}
	return steps
}

// String describes the cycle in words, a line for each side.
func (d Deadlock) String() string {
	text := "A client waits for itself:"
	switch {
	case len(d.Waits) > 1 && d.Certain:
		text = fmt.Sprintf("%d clients wait for each other:", len(d.Waits))
	case len(d.Waits) > 1:
		text = fmt.Sprintf("%d clients may wait for each other. Their sessions do, and whether it is one thread of each is not known: "+
			"a dump of the threads of each process shows it (jstack, or SIGQUIT to a program in Go).", len(d.Waits))
	}
	return text + "\n  " + strings.Join(d.Steps(), ";\n  ")
}

// standsFor is how long a cycle must stand by default.
const standsFor = 5 * time.Second

// Deadlocks returns the cycles of clients that hold locks and wait for others, at a path and below
// it. It looks at mutexes, read/write locks, semaphores and the locks of kazoo. It walks the subtree,
// and only if it finds a cycle it walks again after the time of [LongerThan], by default 5 seconds.
// A cycle counts if each of its nodes was there at both looks, so all of them were there together in
// between. If the servers have changed their leader in that time, the second look comes later by as much. A cycle ends by itself
// when a client in it is dead, so Deadlocks asks for [Sessions], and leaves out a cycle with one that servers call silent or lost.
//
// A contender of this library that was created with [locks.Lease.Context] shows in its name which
// lease that is. So a cycle of such owners is certain, also within a client, and whatever else the
// clients do. The last of the leases of an AcquireN stands for all of them. Of other contenders, such as those of Java, the znodes
// show sessions and no threads: two services with two threads and a lock each look like two clients that wait for each other. So a cycle
// of such contenders is returned only with [LongerThan], if that is longer than all of its holds have lasted at the first look. Choose a
// time that no healthy hold lasts for. It is then not certain. A session counts as blocked if all of this is true:
//
//   - It has joined the queue that it waits in after the queue of what it holds.
//   - It waits for one lock only. A client that waits for several has several threads.
//   - Another session holds what it waits for.
//
// Deadlocks passes over candidates of elections and members that wait for partitions or jobs, because they wait
// in the background. A LeaderSelector of Java has the names of a mutex. Its data is its id if it has one, so
// Deadlocks also passes over a contender of Java for a mutex whose client has other default data than an address.
func Deadlocks(ctx context.Context, client *framework.Framework, path string, opts ...Option) ([]Deadlock, error) {
	cfg, err := newConfig(path, opts)
	if err != nil {
		return nil, at(path, err)
	}
	first, err := waitsBelow(ctx, client, path, opts)
	if err != nil {
		return nil, err
	}
	found := first.cycles()
	for _, d := range first.guessing().cycles() {
		if cfg.longerThan > d.age() && !slices.ContainsFunc(found, d.overlaps) {
			found = append(found, d)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	for history := int64(0); history != client.History(); { // after an outage those who wait get as long again to go on
		history = client.History()
		sleep(ctx, cmp.Or(cfg.longerThan, standsFor))
		if err := client.Sync(ctx, path); err != nil {
			return nil, fmt.Errorf("inspect: %w", err)
		}
	}
	again, err := waitsBelow(ctx, client, path, opts)
	if err != nil {
		return nil, err
	}
	guesses := again.guessing()
	found = slices.DeleteFunc(found, func(d Deadlock) bool {
		if d.Certain {
			return !again.has(d)
		}
		return !guesses.has(d)
	})
	if len(found) == 0 {
		return nil, nil
	}
	census, _ := Sessions(ctx, client) // a session of which servers do not tell may go on for as long as the cycle
	return slices.DeleteFunc(found, func(d Deadlock) bool {
		return slices.ContainsFunc(d.Waits, func(w Wait) bool { return census.Life(w.Waiter.Session).isDead() })
	}), nil
}

// age is how long the oldest of its holds has lasted, by when it joined the queue.
func (d Deadlock) age() (oldest time.Duration) {
	for _, w := range d.Waits {
		oldest = max(oldest, time.Since(w.Holder.Since))
	}
	return oldest
}

// overlaps reports whether two cycles have a contender in common.
func (d Deadlock) overlaps(other Deadlock) bool {
	return slices.ContainsFunc(d.Waits, func(w Wait) bool {
		return slices.ContainsFunc(other.Waits, func(o Wait) bool { return o.Waiter.Token == w.Waiter.Token })
	})
}

// wait is a contender that waits.
type wait struct {
	*locks.Participant
	recipe  *Recipe
	holders []*locks.Participant // that it waits for
	any     bool                 // the first of them that leaves is enough
	stuck   bool
}

// waits are the contenders that wait in a subtree, and those that hold.
type waits struct {
	of    map[int64][]*wait             // by session
	holds map[string]*locks.Participant // by what ownUUID says

	guesses bool // what follows from sessions counts, too
}

func waitsBelow(ctx context.Context, client *framework.Framework, path string, opts []Option) (waits, error) {
	survey, err := Walk(ctx, client, path, opts...)
	if err != nil {
		return waits{}, err
	}
	all := waitsIn(survey.Recipes)
	all.settle()
	return all, nil
}

// guessing returns the same waits, where what follows from sessions counts, too.
func (all waits) guessing() waits {
	guesses := waits{of: make(map[int64][]*wait), holds: all.holds, guesses: true}
	for session, of := range all.of {
		for _, w := range of {
			same := *w
			guesses.of[session] = append(guesses.of[session], &same)
		}
	}
	guesses.settle()
	return guesses
}

func waitsIn(recipes []Recipe) waits {
	all := waits{of: make(map[int64][]*wait), holds: make(map[string]*locks.Participant)}
	groups := make(map[string]bool) // folders of the locks of partitions, and of those of jobs
	for _, r := range recipes {
		switch r.Kind {
		case Partitions:
			groups[framework.JoinPath(r.Path, turnsFolder)] = true
		case Jobs:
			groups[framework.JoinPath(r.Path, jobsFolder)] = true
		default: // its contenders wait in the foreground
		}
	}
	for i := range recipes {
		r := &recipes[i]
		folder, _ := framework.SplitPath(r.Path)
		job, _ := framework.SplitPath(folder)
		if r.Kind.IsLock() && r.Kind != LeaderLatch && !groups[folder] && !groups[job] {
			all.add(r)
		}
	}
	return all
}

// add adds the holds of a lock, and the waits for it.
func (all waits) add(r *Recipe) {
	isSemaphore := r.Kind.hasPermits()
	var holders []*locks.Participant
	asking := int64(0) // the session of the permit that is waited for last, until its turn is found, which is the first
	for i := range r.Participants {
		p := &r.Participants[i]
		isPermit := isSemaphore && p.LockName == leaseName
		switch {
		case p.Session == 0: // its owner is not known
		case p.Holds: // those that follow wait for it
			holders = append(holders, p)
			all.holds[ownUUID(p)] = p
		case isCandidate(p): // it waits for as long as the leader lives, which is no deadlock
		case isSemaphore && !isPermit && asking == p.Session: // it has its turn, and waits for the permit
			asking = 0
		default:
			asking = 0
			if isPermit { // which comes before the turn of its owner
				asking = p.Session
			}
			all.of[p.Session] = append(all.of[p.Session], &wait{Participant: p, recipe: r, holders: slices.Clip(holders), any: isSemaphore})
		}
	}
	if isSemaphore && (r.MaxLeases == 0 || len(holders) < r.MaxLeases) {
		for session, of := range all.of { // a permit may be free
			all.of[session] = slices.DeleteFunc(of, func(w *wait) bool { return w.recipe == r })
		}
	}
}

// settle finds the waits that do not end by themselves: at first all may be stuck, and then those are not whose holders
// go on.
func (all waits) settle() {
	for _, of := range all.of {
		for _, w := range of {
			w.stuck = true
		}
	}
	for changed := true; changed; {
		changed = false
		for _, of := range all.of {
			for _, w := range of {
				if w.stuck && !all.isStuck(w) {
					w.stuck, changed = false, true
				}
			}
		}
	}
}

func (all waits) isStuck(w *wait) bool {
	waitsFor := func(h *locks.Participant) bool { return all.behind(w, h) != nil }
	if w.any {
		return len(w.holders) > 0 && !slices.ContainsFunc(w.holders, func(h *locks.Participant) bool { return !waitsFor(h) })
	}
	return slices.ContainsFunc(w.holders, waitsFor)
}

// behind returns the wait that keeps a holder from going on, nil if there is none.
func (all waits) behind(w *wait, h *locks.Participant) *wait {
	of := all.of[h.Session]
	for _, c := range of {
		if c.stuck && all.isUnder(c.Participant, h) {
			return c
		}
	}
	if !all.guesses || h.Session == w.Session || len(of) != 1 || !of[0].stuck || of[0].Token < h.Token || holderUUID(of[0].Participant) != "" {
		return nil
	}
	return of[0]
}

// isUnder reports whether a contender was created with the context of a lease of h, or of a lease that was acquired with it.
func (all waits) isUnder(p, h *locks.Participant) bool {
	for {
		id := holderUUID(p)
		before := all.holds[id]
		if id == "" || before == nil || before.Session != h.Session || before.Token >= p.Token {
			return false
		}
		if before == h {
			return true
		}
		p = before
	}
}

// ownUUID and holderUUID are parts of the name of a contender: what the names of contenders under its lease begin with, and
// what the name of the lease ends with under which it was created, "" if it was created under none.
func ownUUID(p *locks.Participant) string {
	if id := uuidOf(p); id != "" {
		return id[24:]
	}
	return ""
}

func holderUUID(p *locks.Participant) string {
	if id := uuidOf(p); id != "" && id[14] == '8' {
		return id[:8] + id[9:13]
	}
	return ""
}

// candidates is what the names of a LeaderSelector's candidates begin with, as the holder.
var candidates = ownUUID(&locks.Participant{Path: "/" + callscope.Candidate})

// isCandidate reports whether a contender for what has the names of a mutex is a candidate of an election.
func isCandidate(p *locks.Participant) bool {
	holder := holderUUID(p)
	isOfJava := holder == "" && p.LockName == mutexName && uuidOf(p) != "" && p.Host == "" && !p.RevocationRequested()
	return holder == candidates || isOfJava
}

func uuidOf(p *locks.Participant) string {
	_, name := framework.SplitPath(p.Path)
	if len(name) < 40 || !isCurators(name[:40]) {
		return ""
	}
	return name[3:39]
}

// cycles returns one cycle for each knot.
func (all waits) cycles() []Deadlock {
	var found []Deadlock
	var starts []*wait
	for _, of := range all.of {
		for _, w := range of {
			if w.stuck {
				starts = append(starts, w)
			}
		}
	}
	slices.SortFunc(starts, func(a, b *wait) int { return cmp.Compare(a.Token, b.Token) })
	seen := make(map[*wait]bool)
	for _, w := range starts {
		// Each session waits once, so a walk that goes on comes to a wait where it has been.
		var way []Wait
		at := make(map[*wait]int)
		for w != nil && !seen[w] {
			seen[w], at[w] = true, len(way)
			w, way = all.step(w, way)
			if first, isCycle := at[w]; isCycle {
				found = append(found, Deadlock{Waits: way[first:], Certain: !all.guesses})
			}
		}
	}
	return found
}

// step goes from a wait to the wait of a holder.
func (all waits) step(w *wait, way []Wait) (*wait, []Wait) {
	for _, h := range w.holders {
		if next := all.behind(w, h); next != nil {
			return next, append(way, Wait{w.recipe.Path, w.recipe.Kind, *w.Participant, *h})
		}
	}
	return nil, way
}

// has reports whether a cycle is still there.
func (all waits) has(d Deadlock) bool {
	return !slices.ContainsFunc(d.Waits, func(step Wait) bool {
		return !slices.ContainsFunc(all.of[step.Waiter.Session], func(w *wait) bool {
			return w.stuck && w.Token == step.Waiter.Token &&
				slices.ContainsFunc(w.holders, func(h *locks.Participant) bool { return h.Token == step.Holder.Token && all.behind(w, h) != nil })
		})
	})
}
