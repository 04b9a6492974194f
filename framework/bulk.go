// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// DefaultBulkWindow is how many requests of a [Framework.Bulk] are under way at a time.
const DefaultBulkWindow = 128

// maxBulkReads is how many reads of a bulk leave in one write.
const maxBulkReads = 64

// BulkOp is one operation of a [Framework.Bulk], made by [BulkGet], [BulkExists], [BulkCreate],
// [BulkSet] or [BulkDelete].
type BulkOp struct {
	path  string
	read  func(*BulkResult) Read
	write func(context.Context, *Framework, *BulkResult) error
}

// BulkResult is the result of one operation of a [Framework.Bulk].
type BulkResult struct {
	Path string // of the operation; after a successful BulkCreate, of the created znode
	Data []byte // of BulkGet
	Stat *Stat  // nil after BulkDelete, and when there is no znode
	Err  error  // an *OpError, as the verb would return it, or nil
}

// BulkGet is [Framework.Get] within a bulk.
func BulkGet(path string, opts ...ReadOption) BulkOp {
	return BulkOp{path: path, read: func(r *BulkResult) Read {
		return ReadData(path, &r.Data, append(slices.Clip(opts), newStatOption{&r.Stat})...)
	}}
}

// BulkExists is [Framework.Exists] within a bulk. A missing znode is no error.
func BulkExists(path string) BulkOp {
	return BulkOp{path: path, read: func(r *BulkResult) Read { return ReadStat(path, &r.Stat) }}
}

// BulkCreate is [Framework.Create] within a bulk.
func BulkCreate(path string, data []byte, opts ...CreateOption) BulkOp {
	return BulkOp{path: path, write: func(ctx context.Context, f *Framework, r *BulkResult) error {
		created, err := f.Create(ctx, path, data, append(slices.Clip(opts), newStatOption{&r.Stat})...)
		if err == nil {
			r.Path = created
		}
		return err
	}}
}

// BulkSet is [Framework.Set] within a bulk.
func BulkSet(path string, data []byte, opts ...SetOption) BulkOp {
	return BulkOp{path: path, write: func(ctx context.Context, f *Framework, r *BulkResult) error {
		return f.Set(ctx, path, data, append(slices.Clip(opts), newStatOption{&r.Stat})...)
	}}
}

// BulkDelete is [Framework.Delete] within a bulk.
func BulkDelete(path string, opts ...DeleteOption) BulkOp {
	return BulkOp{path: path, write: func(ctx context.Context, f *Framework, _ *BulkResult) error {
		return f.Delete(ctx, path, opts...)
	}}
}

// newStatOption stores a pointer to a new Stat, beside what StoringStatIn of the caller stores.
type newStatOption struct{ into **Stat }

func (o newStatOption) applyRead(c *readConfig) error     { c.newStat = o.into; return nil }
func (o newStatOption) applyCreate(c *createConfig) error { c.newStat = o.into; return nil }
func (o newStatOption) applySet(c *setConfig) error       { c.newStat = o.into; return nil }

// storeStat stores the Stat of a znode where the options of a verb say; either may be nil.
func storeStat(into *Stat, newStat **Stat, stat Stat) {
	if into != nil {
		*into = stat
	}
	if newStat != nil {
		kept := stat // so that only a bulk allocates
		*newStat = &kept
	}
}

// BulkOption is an option of [Framework.Bulk].
type BulkOption interface{ applyBulk(*bulkConfig) error }

type bulkConfig struct {
	window   int
	progress func(done, total int)
}

type bulkOptionFunc func(*bulkConfig) error

func (o bulkOptionFunc) applyBulk(c *bulkConfig) error { return o(c) }

// WithWindow sets how many requests of a bulk are under way at a time. A larger window is
// faster over a slow link, but makes other requests of the client wait longer. Default:
// [DefaultBulkWindow].
func WithWindow(requests int) BulkOption {
	return bulkOptionFunc(func(c *bulkConfig) error {
		if requests < 1 {
			return fmt.Errorf("%w: WithWindow(%d), expected 1 or more", ErrInvalidOption, requests)
		}
		c.window = requests
		return nil
	})
}

// WithProgress sets a function that Bulk calls each time operations have ended, with the
// number of ended operations and of all operations. It runs on the goroutine of Bulk, one
// call at a time; a slow function delays operations that have not been sent.
func WithProgress(fn func(done, total int)) BulkOption {
	return bulkOptionFunc(func(c *bulkConfig) error {
		if fn == nil {
			return fmt.Errorf("%w: WithProgress(nil), expected a function", ErrInvalidOption)
		}
		c.progress = fn
		return nil
	})
}

// Bulk runs many operations independently and in no particular order: a failure stops no
// other operation. It blocks until all have ended. results[i] is the result of ops[i]. The
// error is nil if all have succeeded; otherwise it counts the failures and wraps the first of
// them in the order of ops.
//
// Each operation is retried as its verb is; [OutcomeUnknown] reports whether a failed one may
// have been applied. When the context ends, unsent operations are never sent and fail with
// an [*InterruptedError], whose Cause is the context's. For all or nothing use
// [Framework.Transact].
func (f *Framework) Bulk(ctx context.Context, ops []BulkOp, opts ...BulkOption) ([]BulkResult, error) {
	cfg := bulkConfig{window: DefaultBulkWindow, progress: func(int, int) {}}
	err := applyAll(opts, func(o BulkOption) error { return o.applyBulk(&cfg) })
	if ctx == nil {
		err = errNilContext
	}
	// All are checked before any is sent: a slip in the last must not leave half a bulk.
	for i := 0; i < len(ops) && err == nil; i++ {
		if ops[i].read == nil && ops[i].write == nil {
			err = fmt.Errorf("%w: operation %d is the zero BulkOp, expected one of BulkGet, BulkSet and so on", ErrInvalidOption, i)
		} else {
			err = ValidatePath(ops[i].path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("framework: bulk: %w", err)
	}
	b := bulk{f: f, ops: ops, results: make([]BulkResult, len(ops)), ended: make(chan int)}
	b.run(ctx, cfg)
	return b.results, b.err()
}

// bulk is one call of Bulk.
type bulk struct {
	f       *Framework
	ops     []BulkOp
	results []BulkResult
	ended   chan int // how many operations have, sent by their goroutines
}

// run keeps as many requests under way as the window allows.
func (b *bulk) run(ctx context.Context, cfg bulkConfig) {
	flying, done := 0, 0
	land := func() {
		n := <-b.ended
		flying -= n
		done += n
	}
	defer func() { // after a panic of the progress function, too
		for flying > 0 {
			land()
		}
	}()
	for next := 0; next < len(b.ops); {
		n := b.part(next, cfg.window)
		// Parts leave whole, so this one waits until the window has room for all of it.
		for flying > 0 && flying+n > cfg.window {
			land()
			cfg.progress(done, len(b.ops))
		}
		part := b.ops[next : next+n]
		results := b.results[next : next+n]
		go func() {
			defer func() { b.ended <- len(part) }()
			b.f.bulkPart(ctx, part, results)
		}()
		flying += n
		next += n
	}
	for flying > 0 {
		land()
		cfg.progress(done, len(b.ops))
	}
}

// part returns how many operations from the next one on are made together: several reads, or
// one write.
func (b *bulk) part(next, window int) int {
	n := 1
	limit := max(1, min(maxBulkReads, window/2))
	for b.ops[next].read != nil && n < limit && next+n < len(b.ops) && b.ops[next+n].read != nil {
		n++
	}
	return n
}

func (b *bulk) err() error {
	var first error
	failed := 0
	for i := range b.results {
		if err := b.results[i].Err; err != nil {
			failed++
			if first == nil {
				first = err
			}
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("framework: bulk: %d of %d have failed, the first: %w", failed, len(b.results), first)
}

// bulkPart makes one write, or reads together.
func (f *Framework) bulkPart(ctx context.Context, ops []BulkOp, results []BulkResult) {
	reads := make([]Read, len(ops))
	for i, op := range ops {
		r := &results[i]
		*r = BulkResult{Path: op.path}
		if op.write != nil {
			// A write is always alone in its part: its retries are its own.
			r.Err = op.write(ctx, f, r)
			return
		}
		reads[i] = op.read(r).StoringErrorIn(&r.Err)
	}
	err := f.Pipeline(ctx, reads...)
	switch {
	case err == nil:
		for i := range results {
			if results[i].Err != nil {
				results[i] = BulkResult{Path: ops[i].path, Err: results[i].Err}
			}
		}
	// Alone, each read has its own result; an outage would only fail them one by one.
	case len(ops) > 1 && !Retryable(err) && !errors.Is(err, ErrClosed) && ctx.Err() == nil:
		for i := range ops { // it is about one of them, such as a reply that is too large
			f.bulkPart(ctx, ops[i:i+1], results[i:i+1])
		}
	default:
		for i, op := range ops {
			results[i] = BulkResult{Path: op.path, Err: failed(reads[i].operation, op.path, unwrapOp(err))}
		}
	}
}

// unwrapOp returns what an OpError says, without its verb and path.
func unwrapOp(err error) error {
	var of *OpError
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
