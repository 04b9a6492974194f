// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/internal/usercode"
)

// Op is one operation of a [Framework.Transact] or a [Framework.Bulk], made by [CreateOp],
// [SetDataOp], [DeleteOp] or [CheckOp].
type Op struct {
	operation
	path  string
	err   error                  // of the options
	check func(*Framework) error // of the path, as its verb does

	as           string    // the function that has made it
	given, takes optionSet // in a transaction

	// In a transaction: the record, without its header, and the result.
	encode func(*Framework, *wire.Encoder) error
	decode func(*Framework, *wire.Decoder, *OpResult)

	alone func(context.Context, *Framework, *OpResult) error // as a call of its own
}

var errZeroOp = fmt.Errorf("%w: the zero Op, expected one of CreateOp, SetDataOp, DeleteOp or CheckOp", ErrInvalidOption)

// Path returns the path that the operation names, "" for the zero Op.
func (op Op) Path() string { return op.path }

// OpResult is the result of one operation of a [Framework.Transact] or a [Framework.Bulk].
type OpResult struct {
	// Path is the path of the operation; after a create, the path of the created znode.
	Path string

	// Stat is the znode's Stat after a set, and after a create in a bulk; nil otherwise.
	Stat *Stat

	// Err is the error of an operation in a bulk, as the verb returns it. A transaction fails
	// as a whole.
	Err error
}

// The options that operations of a transaction take: none that needs more than one request,
// or a Stat that the server does not send.
const (
	ofCreateOp  = withMode | withTTL | withACL | compressed | uncompressed
	ofSetDataOp = withVersion | storingStatIn | compressed | uncompressed
	ofDeleteOp  = withVersion
)

// opCreateInTransaction is the request with which a server accepts the ordinary modes in a
// transaction. Its result has no Stat.
var opCreateInTransaction = operation{wire.OpCreate, true, opCreate.measure}

// CreateOp is [Framework.Create] as an operation. A transaction refuses the options that need
// more than one request, or a Stat. Without permission to create, it fails there with
// [ErrNoAuth] even if the znode exists: a transaction does not look.
func CreateOp(path string, data []byte, opts ...CreateOption) Op {
	var cfg callConfig
	op := Op{path: path, err: cfg.configureCreate(opts)}
	op.check = func(f *Framework) error { return f.creatable(path, cfg.mode) }
	if op.operation = cfg.mode.operation(); op.operation == opCreate {
		op.operation = opCreateInTransaction
	}
	op.alone = func(ctx context.Context, f *Framework, r *OpResult) error {
		c := &creation{f: f, cfg: cfg, path: path, target: path, data: data}
		if c.cfg.stat == nil {
			c.cfg.stat = new(Stat)
		}
		created, err := c.run(ctx, nil)
		if err == nil {
			stat := *c.cfg.stat // the caller may change its own
			r.Path, r.Stat = created, &stat
		}
		return err
	}
	op.as, op.given, op.takes = "CreateOp", cfg.given, ofCreateOp
	op.encode = func(f *Framework, e *wire.Encoder) error {
		c := creation{f: f, cfg: cfg, path: path, target: path, data: data}
		err := c.prepare()
		if err == nil {
			appendCreate(e, f.root.below(path), c.data, &c.cfg)
		}
		return err
	}
	op.decode = func(f *Framework, d *wire.Decoder, r *OpResult) {
		r.Path = f.root.own(d.String())
		if op.operation != opCreateInTransaction {
			d.Stat() // a container or TTL node is answered as by opCreate
		}
	}
	return op
}

// SetDataOp is [Framework.Set] as an operation. A transaction refuses [Idempotent],
// [InSession] and [WithRetry].
func SetDataOp(path string, data []byte, opts ...SetOption) Op {
	cfg, err := newSetConfig(opts)
	return Op{
		operation: opSet, path: path, err: err, as: "SetDataOp", given: cfg.given, takes: ofSetDataOp,
		check: func(f *Framework) error { _, err := f.root.writable(path); return err },
		alone: func(ctx context.Context, f *Framework, r *OpResult) error {
			s := setting{f: f, path: path, data: data, cfg: cfg}
			err := s.run(ctx, nil)
			if err == nil {
				stat := s.stat
				r.Stat = &stat
			}
			return err
		},
		encode: func(f *Framework, e *wire.Encoder) error {
			data, err := f.stored(path, data, &cfg.common)
			if err != nil {
				return err
			}
			s := setting{f: f, path: path, data: data, cfg: cfg}
			return s.encode(e)
		},
		decode: func(_ *Framework, d *wire.Decoder, r *OpResult) {
			stat := d.Stat()
			r.Stat = &stat
			cfg.storeStat(d, stat)
		},
	}
}

// DeleteOp is [Framework.Delete] as an operation. A transaction refuses the options that need
// more than one request.
func DeleteOp(path string, opts ...DeleteOption) Op {
	var cfg callConfig
	err := cfg.configureDelete(opts)
	return Op{
		operation: opDelete, path: path, err: err, as: "DeleteOp", given: cfg.given, takes: ofDeleteOp,
		check: func(f *Framework) error { _, err := f.deletable(path); return err },
		alone: func(ctx context.Context, f *Framework, _ *OpResult) error {
			return (&deletion{f: f, cfg: cfg}).run(ctx, path, nil)
		},
		encode: func(f *Framework, e *wire.Encoder) error {
			d := deletion{f: f, cfg: cfg}
			err := d.prepare(path)
			e.Raw(d.call.body)
			return err
		},
	}
}

// CheckOp fails, and with it its transaction, unless the znode exists and its data has this
// version, which may be [AnyVersion].
func CheckOp(path string, version int32) Op {
	op := Op{
		operation: opCheck, path: path,
		check: func(*Framework) error { return ValidatePath(path) },
		encode: func(f *Framework, e *wire.Encoder) error {
			if err := ValidatePath(path); err != nil {
				return err
			}
			e.String(f.root.full(path))
			e.Int32(version)
			return nil
		},
	}
	// ZooKeeper has no request for a check alone.
	op.alone = func(ctx context.Context, f *Framework, _ *OpResult) error {
		_, err := f.Transact(ctx, op)
		return err
	}
	return op
}

// Transact applies all operations or none, in order and as one transaction of the server. On
// success there is one result for each operation. If the server refuses an operation, the
// error names this operation, and no operation has been applied. A transaction is not
// repeated after a try whose outcome is unknown: if [OutcomeUnknown] is true for the error,
// all operations may have been applied.
func (f *Framework) Transact(ctx context.Context, ops ...Op) ([]OpResult, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	reply := transaction{f: f, ops: ops}
	body, err := f.encodeTransaction(ops)
	c := &call{operation: opTransact, path: ops[0].path, body: body, length: int32(len(ops)), decode: reply.decode}
	attempt := func(ctx context.Context) error { return reply.attempt(ctx, c) }
	err = f.run(ctx, opTransact, ops[0].path, plan{attempt: attempt}, err)
	switch {
	case err != nil:
		return nil, err
	case reply.err != nil:
		return nil, reply.err
	default:
		return reply.results, nil
	}
}

func (f *Framework) encodeTransaction(ops []Op) ([]byte, error) {
	var e wire.Encoder
	for i, op := range ops {
		if op.encode == nil {
			return nil, &OpError{opTransact.name, "", fmt.Errorf("operation %d: %w", i, errZeroOp)}
		}
		if op.err != nil {
			return nil, op.failed(i, op.err)
		}
		if err := op.given.only(op.takes, op.as+" in a transaction"); err != nil {
			return nil, op.failed(i, err)
		}
		e.MultiOp(op.code)
		if err := op.encode(f, &e); err != nil {
			return nil, op.failed(i, err)
		}
	}
	e.MultiEnd()
	return e.Bytes(), nil
}

// failed returns the error of a transaction in which this operation has failed.
func (op Op) failed(index int, err error) error {
	return &OpError{opTransact.name, op.path, fmt.Errorf("%s, operation %d: %w", op.name, index, err)}
}

// transaction reads the reply to a Transact.
type transaction struct {
	f       *Framework
	ops     []Op
	results []OpResult
	err     error
	index   int  // of the operation with err
	named   bool // err belongs to the operation that failed
}

// attempt sends the request. Like Create, it creates a view's namespace when a create needs
// it.
func (t *transaction) attempt(ctx context.Context, c *call) error {
	if err := t.f.awaitConnection(ctx, t.f.cfg.ConnectTimeout); err != nil {
		return &OpError{c.name, c.path, err}
	}
	for i, op := range t.ops {
		if err := t.f.lacks(ctx, op.code); err != nil {
			return op.failed(i, err)
		}
	}
	for made := false; ; made = true {
		t.err, t.named = nil, false
		err := t.f.exchange(ctx, c)
		// Once is enough: a namespace that vanishes again is another client's doing.
		if err != nil || made || !t.needsNamespace() {
			return err
		}
		p := parents{f: t.f, mode: Container}
		if err := p.create(ctx, string(t.f.root)); err != nil {
			return err
		}
	}
}

// needsNamespace reports whether the transaction has failed because a create at the top of
// a view lacks its namespace, or may lack it.
func (t *transaction) needsNamespace() bool {
	var op *OpError
	if t.f == t.f.base || !errors.As(t.err, &op) || !isReply(t.err, ErrNoNode) {
		return false
	}
	parent, _ := SplitPath(op.Path)
	return parent == "/" && t.ops[t.index].name == opCreate.name
}

func (t *transaction) decode(d wire.Decoder) error {
	t.results = make([]OpResult, len(t.ops))
	for i, op := range t.ops {
		t.results[i].Path = op.path
		failed := d.MultiResult()
		switch {
		case d.Err() != nil:
			return d.Err()
		case failed:
			t.fail(i, d.Int32())
		case op.decode != nil:
			op.decode(t.f, &d, &t.results[i])
		}
	}
	return d.Err()
}

// fail keeps the error of the operation that made the transaction fail. The operations
// before it have code 0, although they were not applied; the operations after it have -2.
func (t *transaction) fail(index int, code int32) {
	if t.err == nil || code != 0 && !t.named {
		t.index, t.err = index, t.ops[index].failed(index, serverError(code))
		t.named = code != 0
	}
}

// Bulk runs many operations independently and in no particular order: a failure stops no
// other operation. It blocks until all have ended. results[i] is the result of ops[i], with
// its error. The error of Bulk is nil if all operations have succeeded. Otherwise it counts
// the failures, and wraps the first failure in the order of ops. At most 128 operations are
// under way at a time.
//
// An operation takes all options of its verb, and is retried as the verb is; [OutcomeUnknown]
// reports whether a failed one may have been applied. When the context ends, operations that
// were not sent are never sent and fail with an [*InterruptedError], whose Cause is the
// context's. For all or nothing use [Framework.Transact], for reads [Framework.Pipeline].
//
// If a retry policy or a provider panics, Bulk logs where, and panics with the same value when
// all operations have ended.
func (f *Framework) Bulk(ctx context.Context, ops []Op) ([]OpResult, error) {
	if err := f.checkBulk(ctx, ops); err != nil {
		return nil, fmt.Errorf("framework: bulk: %w", err)
	}
	results := make([]OpResult, len(ops))
	window := make(chan struct{}, bulkWindow)
	var all sync.WaitGroup
	var panicked atomic.Pointer[any] // the first value
	for i, op := range ops {
		window <- struct{}{} // also after the end of ctx, which ends all that are under way
		all.Go(func() {
			defer func() { <-window }()
			results[i].Path = op.path
			usercode.Call(func() { results[i].Err = op.alone(ctx, f, &results[i]) }, func(p *usercode.PanicError) {
				switch {
				case p == nil:
				case p.Value == usercode.ErrExited: //nolint:errorlint // the value itself
					results[i].Err = &OpError{op.name, op.path, fmt.Errorf("%w: %w", errOutcomeUnknown, usercode.ErrExited)}
				default:
					f.cfg.Logger.Error("operation of a bulk panicked", logPath, op.path, "panic", p.Value, "stack", p.Stack)
					panicked.CompareAndSwap(nil, &p.Value)
				}
			})
		})
	}
	all.Wait()
	if value := panicked.Load(); value != nil {
		panic(*value) // on the goroutine of the caller, who alone can recover it
	}
	return results, bulkError(results)
}

// bulkWindow is how many operations of a bulk are under way at a time, so that other requests
// of the client need not wait for all of them.
const bulkWindow = 128

// checkBulk checks all operations before any is sent: a slip in the last must not leave half a bulk.
func (f *Framework) checkBulk(ctx context.Context, ops []Op) error {
	if ctx == nil {
		return errNilContext
	}
	for i, op := range ops {
		err := op.err
		switch {
		case op.alone == nil:
			err = errZeroOp
		case err == nil:
			err = op.check(f)
		}
		if err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return nil
}

func bulkError(results []OpResult) error {
	var first error
	failed := 0
	for i := range results {
		if err := results[i].Err; err != nil {
			failed++
			if first == nil {
				first = err
			}
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("framework: bulk: %d of %d have failed, the first: %w", failed, len(results), first)
}
