// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// queue is what all queues with an envelope have in common.
type queue struct {
	client *framework.Framework
	path   string
	order  order
	cfg    config
	folder *folder // at path
	dead   *folder // for dead letters

	telemetry telemetry

	mu       sync.Mutex
	pending  []put         // for the background, in the order of the calls
	running  bool          // a goroutine makes the puts
	queued   int           // puts that were ever pending
	made     int           // the puts that have ended
	progress chan struct{} // closed when made has grown; nil if nothing waits for it
	failed   error         // the first of the background since the last flush
}

// put is an item on its way into the queue.
type put struct {
	ctx  context.Context //nolint:containedctx // has the values of the call's, and does not end
	name string          // without its number
	data []byte
	n    int64 // items in data
}

func newQueue(client *framework.Framework, path string, order order, opts []Option) (*queue, error) {
	if err := attempt.Check(client, path); err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, fmt.Errorf("queues: %s: %w", path, err)
	}
	if cfg.lockPath != "" && isIn(client, cfg.lockPath, path) { // its folder would count as an item
		return nil, fmt.Errorf("queues: %s: locks at %s, expected a path outside of the queue's", path, cfg.lockPath)
	}
	if dead := cfg.deadLetters; dead != "" && (isIn(client, dead, path) || isIn(client, dead, cfg.lockPath)) {
		return nil, fmt.Errorf("queues: %s: dead letters at %s, expected a folder outside of the queue's and of its locks", path, dead)
	}
	measured, err := newTelemetry(client, path)
	if err != nil {
		return nil, fmt.Errorf("queues: %s: %w", path, err)
	}
	return &queue{
		client: client, path: path, order: order, cfg: cfg, telemetry: measured,
		folder: newFolder(client, path, itemPrefix), dead: newFolder(client, cfg.deadLetters, itemPrefix),
	}, nil
}

// isIn reports whether path is folder, or below it.
func isIn(client *framework.Framework, path, folder string) bool {
	path, folder = client.FullPath(path), client.FullPath(folder)
	return path == folder || folder == "/" || strings.HasPrefix(path, folder+"/")
}

// Path returns the path of the queue.
func (q *queue) Path() string { return q.path }

// Len returns how many znodes the queue has: items that were put together count
// as one. Another client's change may not be seen yet.
func (q *queue) Len(ctx context.Context) (int, error) {
	stat, err := q.client.Exists(ctx, q.path)
	if err != nil {
		return 0, wrap("count", err)
	}
	if stat == nil {
		return 0, nil
	}
	return int(stat.NumChildren), nil
}

// add puts items into one znode of the queue.
func (q *queue) add(ctx context.Context, name string, items [][]byte) error {
	what := "put into " + q.path
	switch {
	case ctx == nil:
		return wrap(what, attempt.ErrNilContext)
	case len(items) == 0:
		return wrap(what, errors.New("no items, expected 1 or more"))
	case ctx.Err() != nil:
		return wrap(what, attempt.Interrupted(ctx))
	}
	// Before it is queued: puts of the background share a transaction, which an invalid id would spoil.
	if err := framework.ValidatePath(framework.JoinPath(q.path, name)); err != nil {
		return wrap(what, err)
	}
	p := put{ctx: context.WithoutCancel(ctx), name: name, data: envelope(items), n: int64(len(items))}
	if !q.cfg.background {
		return wrap(what, q.create(ctx, p))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending = append(q.pending, p)
	q.queued++
	if !q.running {
		q.running = true
		go q.run()
	}
	return nil
}

// FlushPuts blocks until every Put of the background that was called before it has
// ended, or ctx ends. Later ones do not keep it. It returns the first error since
// the last FlushPuts; the log has all errors.
func (q *queue) FlushPuts(ctx context.Context) error {
	if ctx == nil {
		return wrap("flush", attempt.ErrNilContext)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for last := q.queued; q.made < last; {
		if q.progress == nil {
			q.progress = make(chan struct{})
		}
		progress := q.progress
		q.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
		}
		q.mu.Lock()
		if q.made < last && ctx.Err() != nil {
			return wrap("flush "+q.path, attempt.Interrupted(ctx))
		}
	}
	err := q.failed
	q.failed = nil
	return err
}

// run makes the background puts until none is pending.
func (q *queue) run() {
	for {
		some := q.next()
		if len(some) == 0 {
			return
		}
		err := attempt.Guard(q.client, func() error { return q.create(some[0].ctx, some...) })
		if err != nil {
			err = fmt.Errorf("queues: put %d znodes into %s in the background: %w", len(some), q.path, err)
			q.client.Logger().Error("items could not be put into a queue", logPath, q.path, "znodes", len(some), "error", err)
		}
		q.ended(len(some), err)
	}
}

// ended takes down how n puts have ended.
func (q *queue) ended(n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.made += n
	q.failed = cmp.Or(q.failed, err)
	if q.progress != nil {
		close(q.progress)
		q.progress = nil
	}
}

// next takes puts that can share a transaction. If none is pending it ends the
// run.
func (q *queue) next() []put {
	q.mu.Lock()
	defer q.mu.Unlock()
	most := putsAtOnce
	if q.cfg.maxItems > 0 {
		most = 1 // each waits for room
	}
	limit, beside := min(bytesAtOnce, q.client.MaxRequestSize()/2), len(q.client.FullPath(q.path))+besidePut
	n, size := 0, 0
	for n < min(len(q.pending), most) {
		size += beside + len(q.pending[n].name) + len(q.pending[n].data)
		if n > 0 && size > limit {
			break
		}
		n++
	}
	some := slices.Clone(q.pending[:n])
	clear(q.pending[:n])
	q.pending = q.pending[n:] // not moved: there may be very many
	q.running = n > 0
	return some
}

// create makes the znodes of puts, all or none.
func (q *queue) create(ctx context.Context, puts ...put) error {
	if err := q.awaitRoom(ctx); err != nil {
		return err
	}
	if err := q.folder.create(ctx, func() error { return q.tryCreate(ctx, puts) }); err != nil {
		return err
	}
	for _, p := range puts {
		q.telemetry.put.Add(p.n)
	}
	return nil
}

func (q *queue) tryCreate(ctx context.Context, puts []put) error {
	if len(puts) == 1 {
		_, err := q.client.Create(ctx, framework.JoinPath(q.path, puts[0].name), puts[0].data,
			framework.WithMode(framework.PersistentSequential))
		return err
	}
	ops := make([]framework.Op, len(puts))
	for i, p := range puts {
		ops[i] = framework.CreateOp(framework.JoinPath(q.path, p.name), p.data, framework.WithMode(framework.PersistentSequential))
	}
	_, err := q.client.Transact(ctx, ops...)
	return err
}

// awaitRoom waits while the queue is full.
func (q *queue) awaitRoom(ctx context.Context) error {
	for q.cfg.maxItems > 0 {
		n, err := q.Len(ctx)
		if err != nil {
			return err
		}
		q.telemetry.waiting.Record(n)
		if n < q.cfg.maxItems {
			return nil
		}
		var watch *framework.Watch
		names, err := list(ctx, q.client, q.path, "", &watch)
		if err == nil && len(names) >= q.cfg.maxItems {
			_, err = watch.Wait(ctx)
		}
		watch.Cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
