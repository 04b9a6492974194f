// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework/internal/wire"
)

// Op is one operation of a transaction.
type Op struct {
	operation
	path   string
	encode func(*Framework, *wire.Encoder) error // the record, without its header
	decode func(*Framework, *wire.Decoder, *OpResult)
}

// Path returns the path that the operation names, "" for the zero Op.
func (op Op) Path() string { return op.path }

// OpResult is the result of an operation of a transaction.
type OpResult struct {
	// Path is the path of a created znode.
	Path string

	// Stat is the znode's Stat after a set; nil for other operations.
	Stat *Stat
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
var opCreateInTransaction = operation{wire.OpCreate, "create", true}

// CreateOp is [Framework.Create] within a transaction. The options that need more
// than one request, or a Stat, are refused. Without permission to create, it fails with
// [ErrNoAuth] even if the znode exists: a transaction does not look.
func CreateOp(path string, data []byte, opts ...CreateOption) Op {
	op := Op{operation: opCreate, path: path}
	var cfg createConfig
	err := cfg.apply(opts)
	if err == nil {
		err = cfg.given.only(ofCreateOp, "CreateOp in a transaction")
	}
	if op.operation = cfg.mode.operation(); op.operation == opCreate {
		op.operation = opCreateInTransaction
	}
	op.encode = func(f *Framework, e *wire.Encoder) error {
		if err != nil {
			return err
		}
		if err := f.creatable(path, cfg.mode); err != nil {
			return err
		}
		full, cfg := f.root.below(path), cfg
		if cfg.acl == nil {
			cfg.acl = f.cfg.defaultACL(full)
		}
		data, err := f.stored(path, data, &cfg.common)
		if err != nil {
			return err
		}
		e.Raw(encodeCreate(full, data, &cfg))
		return nil
	}
	op.decode = func(f *Framework, d *wire.Decoder, r *OpResult) {
		r.Path = f.root.own(d.String())
		if op.operation != opCreateInTransaction {
			d.Stat() // a container or TTL node is answered as by opCreate
		}
	}
	return op
}

// SetDataOp is [Framework.Set] within a transaction. [Idempotent], [InSession] and [WithRetry]
// are refused.
func SetDataOp(path string, data []byte, opts ...SetOption) Op {
	cfg, err := newSetConfig(opts)
	if err == nil {
		err = cfg.given.only(ofSetDataOp, "SetDataOp in a transaction")
	}
	return Op{
		operation: opSet, path: path,
		encode: func(f *Framework, e *wire.Encoder) error {
			if err != nil {
				return err
			}
			data, err := f.stored(path, data, &cfg.common)
			if err != nil {
				return err
			}
			s := setting{f: f, path: path, data: data, cfg: *cfg}
			return s.encode(e)
		},
		decode: func(_ *Framework, d *wire.Decoder, r *OpResult) {
			stat := d.Stat()
			r.Stat = &stat
			if cfg.stat != nil {
				*cfg.stat = *r.Stat
			}
		},
	}
}

// DeleteOp is [Framework.Delete] within a transaction. The options that need more
// than one request are refused.
func DeleteOp(path string, opts ...DeleteOption) Op {
	return Op{
		operation: opDelete, path: path,
		encode: func(f *Framework, e *wire.Encoder) error {
			cfg := deleteConfig{version: AnyVersion}
			if err := applyAll(opts, func(o DeleteOption) error { return o.applyDelete(&cfg) }); err != nil {
				return err
			}
			if err := cfg.given.only(ofDeleteOp, "DeleteOp in a transaction"); err != nil {
				return err
			}
			full, err := f.deletable(path)
			if err != nil {
				return err
			}
			e.String(full)
			e.Int32(cfg.version)
			return nil
		},
	}
}

// CheckOp makes a transaction fail unless the znode exists and its data has this version,
// which may be [AnyVersion].
func CheckOp(path string, version int32) Op {
	return Op{
		operation: opCheck, path: path,
		encode: func(f *Framework, e *wire.Encoder) error {
			if err := ValidatePath(path); err != nil {
				return err
			}
			e.String(f.root.full(path))
			e.Int32(version)
			return nil
		},
	}
}

// Transact applies all operations or none, in order and as one transaction of the
// server. On success there is one result for each operation. If the server refuses an
// operation, the error names it, and none has been applied. A transaction is not repeated
// after a try whose outcome is unknown: if [OutcomeUnknown] is true for the error, all
// operations may have been applied.
func (f *Framework) Transact(ctx context.Context, ops ...Op) ([]OpResult, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	reply := transaction{f: f, ops: ops}
	body, err := f.encodeTransaction(ops)
	c := &call{operation: opTransact, path: ops[0].path, body: body, decode: reply.decode}
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
			return nil, &OpError{opTransact.name, "", fmt.Errorf(
				"%w: the zero Op as operation %d, expected one of CreateOp, SetDataOp, DeleteOp or CheckOp", ErrInvalidOption, i)}
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

func (t *transaction) decode(d *wire.Decoder) error {
	t.results = make([]OpResult, len(t.ops))
	for i, op := range t.ops {
		failed := d.MultiResult()
		switch {
		case d.Err() != nil:
			return d.Err()
		case failed:
			t.fail(i, d.Int32())
		case op.decode != nil:
			op.decode(t.f, d, &t.results[i])
		}
	}
	return nil
}

// fail keeps the error of the operation that made the transaction fail. The operations
// before it have code 0, although they were not applied; the operations after it have -2.
func (t *transaction) fail(index int, code int32) {
	if t.err == nil || code != 0 && !t.named {
		t.index, t.err = index, t.ops[index].failed(index, serverError(code))
		t.named = code != 0
	}
}
