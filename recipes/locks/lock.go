// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"weak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/internal/instruments"
	"github.com/gocurator/curator/recipes/locks/internal/identity"
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
	shared    bool   // several may hold it at once although its maximum is 1
	recipe    string // in the telemetry, unless an option changes it; "" for a detail of a recipe
	features  []feature

	// isFull reports whether a newcomer behind these contenders does not get the lock. It is nil if that is not known.
	isFull func(contenders []string, maxLeases int) bool
}

// validate returns an error for what cannot be a lock.
func (s spec) validate() error {
	if err := attempt.Check(s.client, s.path); err != nil {
		return fmt.Errorf("locks: %w", err)
	}
	fixed, isFixed := s.maxLeases.(FixedLeases)
	shared, isShared := s.maxLeases.(*SharedLeases)
	switch {
	case options.IsNil(s.driver):
		return errors.New("locks: driver nil, expected one such as StandardLockInternalsDriver")
	case options.IsNil(s.maxLeases):
		return errors.New("locks: maxLeases nil, expected FixedLeases or another source")
	case isFixed && fixed < 1:
		return fmt.Errorf("locks: maxLeases %d, expected 1 or more", fixed)
	case isShared && !shared.isOf(s.client):
		return errors.New("locks: maxLeases of another client, expected SharedLeases made with the client of the semaphore")
	}
	if s.lockName == "" || strings.Contains(s.lockName, "/") {
		return fmt.Errorf("locks: lock name %q, expected one without a slash, such as \"lock-\"", s.lockName)
	}
	if err := framework.ValidatePath(framework.JoinPath(s.path, s.lockName+"0")); err != nil {
		return fmt.Errorf("locks: lock name %q: %w", s.lockName, err)
	}
	return nil
}

// Option is a setting of a lock.
type Option interface{ apply(*config) error }

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

type config struct {
	policy    framework.ErrorPolicy
	data      []byte
	label     string        // in the default data
	recipe    string        // in the telemetry
	places    int           // of a client in the queue; 0 for the default, noLimit for none
	noReentry bool          // ownership in a context counts, and is refused
	cleanup   time.Duration // how long a failed acquisition waits for the deletion of its node
	features  []feature
}

func newConfig(s spec, opts []Option) (config, error) {
	c := config{policy: s.client.ErrorPolicy(), recipe: s.recipe, features: slices.Clone(s.features)}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("a nil option")
		}
		if err := o.apply(&c); err != nil {
			return c, err
		}
	}
	if s.recipe == "" { // the turn at a semaphore: its owner has nothing yet
		c.features = slices.DeleteFunc(c.features, func(f feature) bool { return f.ofHolds })
	}
	switch {
	case c.data == nil:
		c.data = identity.Of(c.label)
	case c.label != "":
		return c, fmt.Errorf("WithLabel(%q) and WithLockData, expected one of them: the label is part of the default data", c.label)
	}
	return c, nil
}

// lock is one lock of a client: where its nodes are, how they are ordered, how many have the
// lock, and how its holds behave. It does not change, but for failed.
type lock struct {
	spec

	fullPath  string // of the folder, at the server
	basePath  string // path and lockName, as the driver gets it
	gate      *gate
	exclusive bool // one contender has the lock, the first in the order of the numbers that the server gives
	owner     any  // the ownerKey of its holds
	cfg       config
	failed    atomic.Bool // the last try
	patience  patience    // of its releases
	observers []observer
	entrances []entrance

	// handOver gives the node of a released hold to another goroutine of the lock. It returns false
	// if the node must go. It is nil if each hold has a node.
	handOver func(h *hold) bool

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
	if err != nil {
		return nil, fmt.Errorf("locks: %s: %w", s.path, err)
	}
	l := &lock{spec: s, fullPath: s.client.FullPath(s.path), basePath: framework.JoinPath(s.path, s.lockName), cfg: cfg}
	isOne := s.maxLeases == MaxLeases(FixedLeases(1))
	l.owner = ownerKey{s.client.WithoutNamespace(), s.client.FullPath(l.basePath), isOne}
	queue, isQueue := s.driver.(queueDriver)
	l.exclusive = isQueue && isOne
	for _, f := range cfg.features {
		if err := f.attach(l); err != nil {
			return nil, fmt.Errorf("locks: %s: %w", s.path, err)
		}
	}
	if !l.exclusive {
		queue = queueDriver{}
	}
	l.gate = gateOf(gateKey{weak.Make(l.client.WithoutNamespace()), l.fullPath, queue, l.exclusive})
	return l, nil
}

// ownerKey finds the hold of one lock in a context. Views of one client that name the same
// node name the same lock. The two sides of a read/write lock share a folder, so the key
// has the base path. One of several permits is no hold of a mutex in its folder.
type ownerKey struct {
	client   *framework.Framework // without namespace
	basePath string               // at the server
	isOne    bool                 // of a lock for one lease
}

// compare orders names that the driver takes for equal as text: each name has a place of its own.
func (l *lock) compare(a, b string) int {
	if order := l.driver.Compare(a, b); order != 0 {
		return order
	}
	return strings.Compare(a, b)
}

// sorted returns the contenders among names, in order and in the memory of names, nil for nil.
func (l *lock) sorted(names []string) []string {
	contenders := slices.DeleteFunc(names, func(name string) bool { return !l.driver.Contends(name) })
	slices.SortFunc(contenders, l.compare)
	return contenders
}

// isAmong reports whether a name is one of the contenders, which are in order.
func (l *lock) isAmong(contenders []string, name string) bool {
	// Most names that are not listed any more stood before the first: one comparison tells.
	if len(contenders) == 0 || l.compare(name, contenders[0]) < 0 {
		return false
	}
	_, found := slices.BinarySearchFunc(contenders, name, l.compare)
	return found
}

// currentMax returns the number as it is now, or an error if an acquisition wants more.
func (l *lock) currentMax(ctx context.Context, wants int) (int, error) {
	ctx, done := context.WithCancel(ctx) // of the watch on the maximum
	defer done()
	var m maximum
	err := m.read(ctx, l.maxLeases, wants)
	return m.n, err
}

// instant is what to know about the moment before a request, to judge its answer.
type instant struct {
	history int64
	link    context.Context // see linkOf
}

func (l *lock) instant() instant { return instant{l.client.History(), linkOf(l.client)} }

// isUnchanged reports whether the history and the connection are those of a moment before a request, and so those of its answer.
func (l *lock) isUnchanged(before instant) bool {
	return before.history != 0 && l.instant() == before
}

// linkOf returns a context that ends with the connection. Each connection has its own.
func linkOf(client *framework.Framework) context.Context {
	if session := client.Session(); session != nil {
		return session.Context(framework.StandardErrorPolicy)
	}
	return context.Background()
}
