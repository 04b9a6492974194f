// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
)

// These bound what following costs the servers.
const (
	beat        = 100 * time.Millisecond
	maxReads    = 10              // nodes in a beat whose owners are read
	maxEvents   = 5000            // in a second; more, and the watch is given up for looks
	lookEvery   = time.Second     // without a watch; and a quarter of the time at most
	censusEvery = 3 * time.Second // sessions are asked for; and a twentieth of the time at most
)

// Contention is what the locks below a path had to bear in some time.
type Contention struct {
	Path  string    `json:"path"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Locks []Load    `json:"locks"` // those with the most waiters first

	// Sampled says that there was no watch, so that turns between two looks are missing.
	Sampled bool `json:"sampled,omitempty"`

	// Gaps counts lost connections. What has happened meanwhile has the time of the look that follows.
	Gaps int `json:"gaps,omitempty"`

	// Partial says that there were more locks than are kept, 50,000.
	Partial bool `json:"partial,omitempty"`

	// Unknown says what the servers have not told, empty if nothing. Without their sessions losses are missing.
	Unknown string `json:"unknown,omitempty"`

	Cost Cost `json:"cost"`
}

// Cost is what a [Contention] has cost the servers.
type Cost struct {
	Events   int `json:"events"`   // notifications that a server has sent
	Looks    int `json:"looks"`    // at the whole subtree; see [Walk]
	Reads    int `json:"reads"`    // of nodes of contenders, ten times a second in one pipeline
	Censuses int `json:"censuses"` // see [Sessions]
}

// Traffic follows the locks below a path. [Follow] begins it. It is safe for concurrent use.
type Traffic struct {
	client *framework.Framework
	path   string
	opts   []Option
	watch  *framework.PersistentWatch // nil where there is none
	events *listen.Registration
	wake   chan struct{} // news may have been missed
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	ledger *ledger
	said   Contention // without the locks
	burst  int        // events since a time
	since  time.Time
}

// Follow follows the locks at a path and below it: who waits, who holds, and for how long. It returns when it
// has looked at the subtree once. Then it goes on in the background until [Traffic.Close], or the end of the
// client. ctx bounds the first look only.
//
// Follow needs no request for a turn. A recursive watch tells of each node that is created, deleted or
// changed, in a notification of about a hundred bytes. When more than 5,000 come in a second, Follow gives the
// watch up. Then, and before ZooKeeper 3.6, it looks at the subtree once a second, as [Walk] does, for a
// quarter of the time at most. Beside that it reads the nodes of contenders, to know their owners: a hundred in a second
// at most, holders first. Every three seconds it asks for the sessions, as [Sessions] does, for a twentieth of
// the time at most.
//
// The names of znodes say what kind a lock is; see [Kind]. A semaphore of kazoo counts as the lock at its entrance.
// A process that acquires permits of one semaphore for several goroutines may have one too many counted as held.
// Times are those at which this client hears of a change.
func Follow(ctx context.Context, client *framework.Framework, path string, opts ...Option) (*Traffic, error) {
	cfg, err := newConfig(path, opts)
	if err == nil && cfg.heads {
		err = errors.New("HeadsOnly, expected no such option: all contenders are followed")
	}
	if err != nil {
		return nil, at(path, err)
	}
	t := &Traffic{client: client, path: path, opts: slices.Clone(opts), wake: make(chan struct{}, 1), done: make(chan struct{})}
	t.ledger = newLedger(time.Now())
	watch, err := client.AddWatch(ctx, path, framework.WatchPersistentRecursive)
	switch {
	case errors.Is(err, framework.ErrUnsupported):
		t.said.Sampled = true
	case err != nil:
		return nil, fmt.Errorf("inspect: %w", err)
	default:
		t.watch, t.events = watch, watch.OnEvent(t.note)
	}
	t.said.From, t.since = time.Now(), time.Now()
	if _, err := t.look(ctx); err != nil {
		t.unwatch()
		return nil, err
	}
	going, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	go t.run(going)
	return t, nil
}

// Close ends the following. It blocks until nothing runs any more, for as long as a request takes to
// be cancelled. It may be called again.
func (t *Traffic) Close() {
	t.stop()
	<-t.done
}

func (t *Traffic) unwatch() {
	if t.watch != nil {
		t.events.Remove()
		t.watch.Cancel()
		t.watch = nil
	}
}

// Take returns what has been since [Follow], or since the last Take.
func (t *Traffic) Take() Contention {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	c := t.said
	c.Path, c.Until, c.Partial = t.path, now, t.ledger.dropped
	c.Locks = append([]Load{}, t.ledger.take(now)...)
	t.said = Contention{From: now, Sampled: c.Sampled}
	return c
}

// Turns returns the turns at one lock that were there in the last minute, in the order in which they joined.
// Of all locks together 20,000 turns are kept.
func (t *Traffic) Turns(lock string) []Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ledger.turnsOf(lock, time.Now().Add(-time.Minute))
}

// note takes an event of the watch.
func (t *Traffic) note(e framework.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.burst++
	t.said.Cost.Events++
	switch e.Type {
	case framework.EventNodeCreated:
		t.ledger.created(e.Path, now)
	case framework.EventNodeDeleted:
		t.ledger.deleted(e.Path, now)
	case framework.EventResync:
		t.said.Gaps++
		select {
		case t.wake <- struct{}{}:
		default:
		}
	default: // the data of a node
	}
}

func (t *Traffic) run(ctx context.Context) {
	defer close(t.done)
	defer t.unwatch()
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	var look, census time.Time // when the next ones are due
	var watched <-chan struct{}
	if t.watch != nil {
		watched = t.watch.Done()
	}
	for {
		missed := false
		select {
		case <-ticker.C:
		case <-t.wake:
			missed = true
		case <-watched:
			watched = nil
			t.giveUp()
		case <-t.client.Done():
			return
		case <-ctx.Done():
			return
		}
		err := t.beat(ctx, missed, &look, &census)
		t.fail(ctx, err)
		if err != nil && missed && ctx.Err() == nil { // it is still missing
			select {
			case t.wake <- struct{}{}:
			default:
			}
			sleep(ctx, beat)
		}
	}
}

// beat does what is due.
func (t *Traffic) beat(ctx context.Context, missed bool, look, census *time.Time) error {
	began := time.Now()
	if t.isFlooded() {
		t.giveUp()
	}
	if missed || t.watch == nil && !began.Before(*look) {
		took, err := t.look(ctx)
		*look = began.Add(max(lookEvery, 4*took))
		if err != nil {
			return err
		}
	}
	if err := t.readOwners(ctx); err != nil {
		return err
	}
	if began = time.Now(); began.Before(*census) {
		return nil
	}
	err := t.count(ctx)
	*census = time.Now().Add(max(censusEvery, 20*time.Since(began)))
	return err
}

// fail notes an error, of the newest beat that had one.
func (t *Traffic) fail(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.said.Unknown = err.Error()
	}
}

// isFlooded reports whether there were too many events in about a second.
func (t *Traffic) isFlooded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	passed := time.Since(t.since)
	if passed < time.Second {
		return false
	}
	isFlooded := float64(t.burst) > maxEvents*passed.Seconds()
	t.burst, t.since = 0, time.Now()
	return isFlooded
}

func (t *Traffic) giveUp() {
	t.unwatch()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said.Sampled = true
}

// look compares with the whole subtree. It returns how long the look has taken.
func (t *Traffic) look(ctx context.Context) (time.Duration, error) {
	t.mu.Lock()
	t.ledger.gone = make(map[string]bool)
	t.said.Cost.Looks++
	t.mu.Unlock()
	begun := time.Now()
	survey, err := Walk(ctx, t.client, t.path, t.opts...)
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if errors.Is(err, framework.ErrNoNode) {
		survey, err = Survey{}, nil // there is no lock yet
	}
	if err == nil {
		t.ledger.looked(survey.Recipes, !survey.Partial, begun, now)
	}
	return now.Sub(begun), err
}

// readOwners reads what some contenders say that they are.
func (t *Traffic) readOwners(ctx context.Context) error {
	t.mu.Lock()
	paths := t.ledger.unread(maxReads)
	t.said.Cost.Reads += len(paths)
	t.mu.Unlock()
	nodes := make([]*node, len(paths))
	for i, path := range paths {
		nodes[i] = &node{path: path}
	}
	if err := unbounded.readNodes(ctx, t.client, nodes); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range nodes {
		t.ledger.read(n.path, n.data, n.stat)
	}
	return nil
}

// count asks which clients do not answer.
func (t *Traffic) count(ctx context.Context) error {
	census, err := Sessions(ctx, t.client)
	dead := make(map[string]bool)
	for _, s := range census.Sessions {
		if s.Life.isDead() {
			for _, path := range s.Ephemerals {
				dead[path] = true
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.said.Cost.Censuses++
	t.ledger.mark(dead, t.client.FullPath)
	return err
}
