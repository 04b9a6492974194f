// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/chance"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/internal/usercode"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/leader"
)

var (
	// ErrNotStarted reports a call that needs a sharder that is started.
	ErrNotStarted = errors.New("not started")

	// ErrClosed reports a call on a sharder that is closed.
	ErrClosed = errors.New("closed")
)

// Sharded is a queue that a [QueueSharder] can have several of. All kinds of
// queue of this package but the simple one implement it.
type Sharded interface {
	// Path returns the path that the queue was opened at.
	Path() string

	// Len returns how many znodes the queue has.
	Len(ctx context.Context) (int, error)

	// Consume blocks until ctx ends or the queue cannot be consumed.
	Consume(ctx context.Context, fn func(ctx context.Context, item []byte) error) error
}

// QueueSharder spreads items over several queues, so that the list of names of
// each stays short. While a queue is full, each check adds another, up to a
// limit. Items of different queues have no order. It is Curator's class of the
// same name, and shares its queues with it.
//
// Layout: each queue is a persistent znode <queuePath>/queue-<uuid>. The
// sharders of a path elect a leader at leaderPath, as [leader.LeaderLatch] does,
// and the leader adds queues. Queues are never removed.
//
// Curator's sharder takes every child of queuePath for a queue; this one takes
// only names as above. Curator's may return a queue before its znode exists, so
// that a put into it fails; this one makes the znode first. With [WithLockPath],
// each queue needs a lock path of its own, and it must not be below queuePath.
//
// It is safe for concurrent use.
type QueueSharder[Q Sharded] struct {
	client     *framework.Framework
	open       func(path string) (Q, error)
	path       string
	cfg        sharderConfig
	leadership *leader.LeaderLatch

	mu      sync.Mutex
	shards  []*shard[Q]
	grown   chan struct{}      // closed when there are more shards
	stop    context.CancelFunc // nil before Start
	stopped chan struct{}      // closed when the checks have ended
	closed  bool
}

type shard[Q Sharded] struct {
	path  string
	queue Q
	full  bool // at the last checks
}

// SharderOption is a setting of a [QueueSharder].
type SharderOption interface{ applySharder(*sharderConfig) error }

type sharderOptionFunc func(*sharderConfig) error

func (f sharderOptionFunc) applySharder(c *sharderConfig) error { return f(c) }

type sharderConfig struct {
	threshold int           // how many znodes make a queue full
	every     time.Duration // between two checks
	most      int           // queues
}

// WithNewQueueThreshold sets how many znodes make a queue full. It then gets no
// items until it has at most half as many, unless all are full. Default: 10,000,
// as in Curator.
func WithNewQueueThreshold(n int) SharderOption {
	return sharderOptionFunc(options.Checked(n >= 1, func(c *sharderConfig) { c.threshold = n },
		"a threshold of %d znodes, expected 1 or more", n))
}

// WithThresholdCheck sets the time between two checks. A check reads the size of
// each queue, and finds the queues that other processes have added. Default: 30
// seconds, as in Curator.
func WithThresholdCheck(every time.Duration) SharderOption {
	return sharderOptionFunc(options.Checked(every > 0, func(c *sharderConfig) { c.every = every },
		"a check every %v, expected more than 0", every))
}

// WithMaxQueues sets at how many queues no more are added. Processes that add
// their first queue at the same time may exceed it. Default: 10, as in Curator.
func WithMaxQueues(n int) SharderOption {
	return sharderOptionFunc(options.Checked(n >= 1, func(c *sharderConfig) { c.most = n }, "at most %d queues, expected 1 or more", n))
}

// NewQueueSharder returns a sharder of the queues below queuePath. It calls open
// once or more for each queue, during Start and later on a goroutine of its own.
// open returns the queue at the given path. leaderPath is a path outside queuePath.
// NewQueueSharder sends nothing.
func NewQueueSharder[Q Sharded](
	client *framework.Framework, open func(path string) (Q, error), queuePath, leaderPath string, opts ...SharderOption,
) (*QueueSharder[Q], error) {
	if err := attempt.Check(client, queuePath); err != nil {
		return nil, fmt.Errorf("queues: sharder: %w", err)
	}
	what := "sharder of " + queuePath
	if open == nil {
		return nil, wrap(what, errors.New("function nil, expected one that returns the queue at a path"))
	}
	if leaderPath == queuePath || strings.HasPrefix(leaderPath, strings.TrimSuffix(queuePath, "/")+"/") {
		// Curator's sharders would put items into it.
		return nil, wrap(what, fmt.Errorf("leader path %s, expected one outside %s", leaderPath, queuePath))
	}
	s := &QueueSharder[Q]{
		client: client, open: open, path: queuePath, grown: make(chan struct{}), stopped: make(chan struct{}),
		cfg: sharderConfig{threshold: 10_000, every: 30 * time.Second, most: 10},
	}
	if err := options.Apply(opts, func(o SharderOption) error { return o.applySharder(&s.cfg) }); err != nil {
		return nil, wrap(what, err)
	}
	var err error
	if s.leadership, err = leader.NewLeaderLatch(client, leaderPath); err != nil {
		return nil, wrap(what, err)
	}
	return s, nil
}

// Start finds the queues that exist, and adds one if there is none. Then it
// starts the checks, which run in the background until Close, and stands for
// election. A failed Start may be repeated; after a successful one, or after
// Close, Start returns an error.
func (s *QueueSharder[Q]) Start(ctx context.Context) error {
	return wrap("start the sharder of "+s.path, s.start(ctx))
}

func (s *QueueSharder[Q]) start(ctx context.Context) error {
	if ctx == nil {
		return attempt.ErrNilContext
	}
	if err := s.usable(true); err != nil {
		return err
	}
	if err := s.refresh(ctx); err != nil {
		return err
	}
	if len(s.all()) == 0 {
		if err := s.add(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(true); err != nil {
		return err // another goroutine was faster
	}
	if err := s.leadership.Start(); err != nil {
		return err
	}
	running, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.run(running)
	return nil
}

// usableLocked returns why the sharder cannot be used, or started.
func (s *QueueSharder[Q]) usableLocked(starts bool) error {
	switch {
	case s.closed:
		return ErrClosed
	case starts && s.stop != nil:
		return errors.New("started already")
	case !starts && s.stop == nil:
		return ErrNotStarted
	default:
		return nil
	}
}

func (s *QueueSharder[Q]) usable(starts bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.usableLocked(starts)
}

// run checks the shards until ctx or the client ends.
func (s *QueueSharder[Q]) run(ctx context.Context) {
	defer close(s.stopped)
	for {
		attempt.Rest(ctx, s.client, s.cfg.every)
		if ctx.Err() != nil || attempt.Ended(s.client) != nil {
			return
		}
		err := attempt.Guard(s.client, func() error { return s.check(ctx) })
		if err == nil || ctx.Err() != nil || attempt.Ended(s.client) != nil {
			continue
		}
		s.client.Logger().Warn("cannot check the sizes of queues, trying again", logPath, s.path, "error", err)
	}
}

// check finds new shards, reads the sizes of all, and adds one if any is full.
func (s *QueueSharder[Q]) check(ctx context.Context) error {
	if err := s.refresh(ctx); err != nil {
		return err
	}
	all := s.all()
	full := false
	for _, one := range all {
		n, err := one.queue.Len(ctx)
		if err != nil {
			return err
		}
		s.note(one, n)
		full = full || n >= s.cfg.threshold
	}
	// A leader that does not yet know that its leadership is over may add one queue too many, which does no harm.
	if !full || len(all) >= s.cfg.most || !s.leadership.HasLeadership() {
		return nil
	}
	return s.add(ctx)
}

// note decides whether a shard of n znodes has room. A queue that was full has room
// again when half of it is gone, as in Curator.
func (s *QueueSharder[Q]) note(one *shard[Q], n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.full = n >= s.cfg.threshold || one.full && n > s.cfg.threshold/2
}

// add creates a shard and opens it, even if its znode is deleted in between. Then it opens the
// shards that other processes have added.
func (s *QueueSharder[Q]) add(ctx context.Context) error {
	path := framework.JoinPath(s.path, itemPrefix+chance.Of(ctx).UUID(s.path))
	if err := ensure(ctx, s.client, path); err != nil {
		return err
	}
	if err := s.openAt(path); err != nil {
		return err
	}
	return s.refresh(ctx)
}

// refresh opens the shards that this process does not know.
func (s *QueueSharder[Q]) refresh(ctx context.Context) error {
	names, err := list(ctx, s.client, s.path, itemPrefix, nil)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := framework.JoinPath(s.path, name)
		if !isShard(name) || slices.Contains(s.QueuePaths(), path) {
			continue
		}
		if err := s.openAt(path); err != nil {
			return err
		}
	}
	return nil
}

func (s *QueueSharder[Q]) openAt(path string) error {
	queue, err := s.open(path)
	if err != nil {
		return err
	}
	if options.IsNil(queue) {
		return fmt.Errorf("open returned nil, expected the queue at %s", path)
	}
	if got := queue.Path(); got != path {
		return fmt.Errorf("open returned the queue at %s, expected the one at %s", got, path)
	}
	s.take(path, queue)
	return nil
}

// isShard reports whether a znode has the name of a shard.
func isShard(name string) bool {
	id, found := strings.CutPrefix(name, itemPrefix)
	return found && len(id) == len(uuid.Nil.String()) && uuid.Validate(id) == nil
}

// take adds a queue, unless another goroutine has added it.
func (s *QueueSharder[Q]) take(path string, queue Q) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.shards, func(known *shard[Q]) bool { return known.path == path }) {
		return
	}
	s.shards = append(s.shards, &shard[Q]{path: path, queue: queue})
	close(s.grown)
	s.grown = make(chan struct{})
}

func (s *QueueSharder[Q]) all() []*shard[Q] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.shards)
}

// QueuePaths returns the paths of the queues that this process knows, oldest
// knowledge first. It sends nothing.
func (s *QueueSharder[Q]) QueuePaths() []string {
	all := s.all()
	paths := make([]string, len(all))
	for i, one := range all {
		paths[i] = one.path
	}
	return paths
}

// Queue returns a queue for the next item. It is a random queue that had room at the
// last check, or any queue if none had room. Call it for each item. It sends
// nothing. It fails before Start and after Close.
func (s *QueueSharder[Q]) Queue() (Q, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usableLocked(false); err != nil {
		var none Q
		return none, wrap("choose a queue of "+s.path, err)
	}
	from := slices.DeleteFunc(slices.Clone(s.shards), func(one *shard[Q]) bool { return one.full })
	if len(from) == 0 {
		from = s.shards
	}
	return from[rand.IntN(len(from))].queue, nil
}

// Consume consumes all queues, and queues that are added later, until ctx ends. Then
// it returns the error and cause of ctx. It consumes one item of each queue at a
// time, so several goroutines call fn at once. A panic of fn ends the process, and
// [runtime.Goexit] in fn ends Consume with an error. Apart from that it is
// [DistributedQueue.Consume] of each queue.
//
// The first queue that cannot be consumed ends it, with that queue's error. All
// calls of fn have returned then. Consume fails before Start and after Close. A
// Consume that runs during Close goes on, without later queues.
func (s *QueueSharder[Q]) Consume(ctx context.Context, fn func(ctx context.Context, item []byte) error) error {
	what := "consume the queues of " + s.path
	switch {
	case ctx == nil:
		return wrap(what, attempt.ErrNilContext)
	case fn == nil:
		return wrap(what, errors.New("function nil, expected one that consumes an item"))
	}
	if err := s.usable(false); err != nil {
		return wrap(what, err)
	}
	err := s.consume(ctx, fn)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return wrap(what, attempt.Interrupted(ctx))
	}
	return err
}

// consume returns what the first consumer that ends has returned.
func (s *QueueSharder[Q]) consume(ctx context.Context, fn func(ctx context.Context, item []byte) error) error {
	var consumers sync.WaitGroup
	defer consumers.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan error, 1)
	for next := 0; ; {
		s.mu.Lock()
		added, grown := slices.Clone(s.shards[next:]), s.grown
		s.mu.Unlock()
		next += len(added)
		for _, one := range added {
			consumers.Go(func() {
				err := wrap("consume "+one.path, usercode.ErrExited) // unless Consume returns
				defer func() {
					select {
					case first <- err:
					default: // another one was faster
					}
				}()
				err = one.queue.Consume(ctx, fn)
			})
		}
		select {
		case <-grown:
		case err := <-first:
			return err
		}
	}
}

// Close stops the checks, leaves the election, and leaves the queues as they
// are. It blocks until both have ended, as [leader.LeaderLatch.Close] does.
func (s *QueueSharder[Q]) Close() error {
	s.mu.Lock()
	s.closed = true
	stop := s.stop
	s.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	<-s.stopped
	return wrap("close the sharder of "+s.path, s.leadership.Close())
}
