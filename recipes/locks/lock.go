// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/internal/instruments"
	"github.com/gocurator/curator/recipes/locks/internal/line"
	"github.com/gocurator/curator/recipes/locks/internal/telemetry"
)

// keyPath is the key of a path in the log.
const keyPath = instruments.Path

// spec is what a recipe says of its lock.
type spec struct {
	client    *framework.Framework
	driver    LockInternalsDriver
	path      string // the folder
	lockName  string // the part of a node's name before the number
	maxLeases MaxLeases
	reenters  bool   // ownership in a context counts
	handsOff  bool   // holds in a row may share a node
	recipe    string // in the telemetry, unless an option changes it; "" for a detail of a recipe, which is not observed
}

// validate returns an error for what cannot be a lock.
func (s spec) validate() error {
	fixed, isFixed := s.maxLeases.(FixedLeases)
	shared, isShared := s.maxLeases.(*SharedLeases)
	switch {
	case s.client == nil:
		return errors.New("locks: client nil, expected a started framework client")
	case options.IsNil(s.driver):
		return errors.New("locks: driver nil, expected one such as StandardLockInternalsDriver")
	case options.IsNil(s.maxLeases):
		return errors.New("locks: maxLeases nil, expected FixedLeases or another source")
	case isFixed && fixed < 1:
		return fmt.Errorf("locks: maxLeases %d, expected 1 or more", fixed)
	case isShared && !shared.isOf(s.client):
		return errors.New("locks: maxLeases of another client, expected SharedLeases made with the client of the semaphore")
	}
	if err := framework.ValidatePath(s.path); err != nil {
		return fmt.Errorf("locks: %w", err)
	}
	if s.lockName == "" || strings.Contains(s.lockName, "/") {
		return fmt.Errorf("locks: lock name %q, expected one without a slash, such as \"lock-\"", s.lockName)
	}
	if err := framework.ValidatePath(framework.JoinPath(s.path, s.lockName+"0")); err != nil {
		return fmt.Errorf("locks: lock name %q: %w", s.lockName, err)
	}
	return nil
}

// lock is one lock of a client: where its nodes are, how they are ordered, how many have the
// lock, and how its holds behave. It does not change, but for failed and handoff.
type lock struct {
	spec

	fullPath  string // of the folder, at the server
	basePath  string // path and lockName, as the driver gets it
	line      *line.Line
	owner     any // the ownerKey of its holds
	cfg       config
	failed    atomicTime // the last failed try; unset if one has succeeded since
	telemetry *telemetry.Lock
	handoff   *handoff                // nil if every hold has a node of its own
	queued    *listen.Set[queuePlace] // nil without WithQueueListener

	onRevocation atomic.Pointer[func(*Lease)] // nil if the lock is not revocable

	// driverFor returns the driver of an acquisition with a context, or why there can be none.
	// It is nil if all have driver.
	driverFor func(ctx context.Context) (LockInternalsDriver, error)
}

// newLock returns the lock of a spec.
func newLock(s spec, opts []Option) (*lock, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	cfg, err := newConfig(s, opts)
	if err == nil && cfg.handoff > 1 && !s.handsOff {
		err = errHandoffOfMany
	}
	if err == nil && cfg.delay > 0 && (!s.handsOff || s.driver.Contends(markerName)) {
		err = errDelayOfMany
	}
	if err != nil {
		return nil, fmt.Errorf("locks: %s: %w", s.path, err)
	}
	l := &lock{spec: s, fullPath: s.client.FullPath(s.path), basePath: framework.JoinPath(s.path, s.lockName), cfg: cfg}
	l.owner, l.line = ownerKey{s.client.WithoutNamespace(), s.client.FullPath(l.basePath)}, l.newLine()
	if s.recipe != "" {
		if l.telemetry, err = telemetry.New(s.client, cfg.recipe, s.path); err != nil {
			return nil, err
		}
	}
	l.MakeRevocable(cfg.onRevocation)
	if cfg.onQueued != nil {
		l.queued = queueListeners(s.client, s.path, cfg.onQueued)
	}
	if cfg.handoff > 1 {
		l.handoff = &handoff{most: cfg.handoff}
	}
	return l, nil
}

// ownerKey finds the hold of one lock in a context. Views of one client that name the same
// node name the same lock. The two sides of a read/write lock share a folder, so the key
// has the base path.
type ownerKey struct {
	client   *framework.Framework // without namespace
	basePath string               // at the server
}

// lineKey distinguishes the locks that know of each other's contenders.
type lineKey struct {
	client *framework.Framework // without namespace
	path   string               // at the server
	sorter any                  // equal for locks that sort the names in the same way
	fixed  bool                 // the maximum; see lock.localReleaseProves
}

// newLine returns what the client knows of the contenders.
func (l *lock) newLine() *line.Line {
	var sorter line.Sorter = struct{ LockInternalsSorter }{l.driver} // a method that happens to be called Number means nothing
	if driver, ok := l.driver.(numberingDriver); ok {
		sorter = driver.order()
	}
	if !reflect.ValueOf(sorter).Comparable() {
		return line.New(sorter) // shared by no other lock
	}
	_, fixed := l.maxLeases.(FixedLeases)
	return line.Of(lineKey{l.client.WithoutNamespace(), l.fullPath, sorter, fixed}, sorter)
}

// localReleaseProves reports whether the release of an acquisition of this process proves
// that its place is free. If the maximum may change only the server's events count: they come
// in order with the news of another maximum.
func (l *lock) localReleaseProves(driver LockInternalsDriver, name string) bool {
	shrinking, ok := driver.(ShrinkingQueue)
	if _, fixed := l.maxLeases.(FixedLeases); !ok || !fixed {
		return false
	}
	return marks(driver) || shrinking.Shrinks(name)
}

func (l *lock) nodeKey(name string) nodeKey {
	return nodeKey{l.client.WithoutNamespace(), l.fullPath, name}
}

// lister lists the folder for package line.
type lister struct{ *lock }

// Ask lists the folder, in the client's context: acquisitions share the answer.
func (l lister) Ask(r *line.Request) {
	var answer line.List
	attempt.GuardHere(l.client, func() (err error) {
		if !l.client.State().IsConnected() {
			// A cheap request waits as long as any verb does.
			if _, err := l.client.Exists(context.Background(), l.path); err != nil {
				return err
			}
		}
		r.Sent()
		var stat framework.Stat
		before := l.instant()
		answer.Names, err = l.client.Children(context.Background(), l.path, framework.StoringStatIn(&stat))
		answer.Pzxid = stat.Pzxid
		answer.History, answer.Link = l.origin(before)
		return err
	}, func(err error) { r.Answered(answer, err) })
}

// pathsOf returns the paths of nodes in the folder.
func (l *lock) pathsOf(names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = framework.JoinPath(l.path, name)
	}
	return paths
}

// currentMax returns the number as it is now.
func (l *lock) currentMax(ctx context.Context) (int, error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	n, _, err := l.maxLeases.MaxLeases(ctx)
	return max(n, 0), err
}

// instant is what to know about the moment before a request, to judge its answer.
type instant struct {
	history int64
	link    context.Context // see linkOf
	grants  uint64
}

func (l *lock) instant() instant {
	return instant{l.client.History(), linkOf(l.client), grants.Load()}
}

// origin returns the history and the connection of an answer. It returns zeros if the answer may
// be of either of two.
func (l *lock) origin(before instant) (history int64, link any) {
	if history = l.client.History(); history == before.history && linkOf(l.client) == before.link {
		return history, before.link
	}
	return 0, nil
}

// linkOf returns a context that ends with the connection. Each connection has its own.
func linkOf(client *framework.Framework) context.Context {
	if session := client.Session(); session != nil {
		return session.Context(framework.StandardErrorPolicy)
	}
	return context.Background()
}
