// SPDX-License-Identifier: Apache-2.0

package atomic

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/callscope"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// integer is the type of a counter.
type integer interface{ int32 | int64 }

// DistributedAtomicNumber is a counter that many processes share: a [DistributedAtomicLong] or a
// [DistributedAtomicInteger]. It shares its znode with Curator's classes of those names.
//
// Layout: a persistent znode at path, below container nodes, whose data is the number,
// big-endian, as eight bytes or four. No znode, and no data, is 0.
//
// It is safe for concurrent use. Goroutines combine their additions best when they share one
// DistributedAtomicNumber.
type DistributedAtomicNumber[T int32 | int64] struct {
	value *DistributedAtomicValue

	mu      sync.Mutex
	waiting []*addition[T] // for the next write, in the order of their arrival
	running bool           // a goroutine makes the writes
}

// addition is one call of Add.
type addition[T integer] struct {
	ctx   context.Context //nolint:containedctx // of the caller, who waits
	delta T
	done  chan outcome[T]

	in *batch[T] // nil while it waits; then it can no longer be withdrawn
}

// batch is the additions of one write.
type batch[T integer] struct {
	additions []*addition[T]
	ctx       context.Context //nolint:containedctx // ends when no caller waits for the write
	cancel    context.CancelCauseFunc
	callers   int // that wait for the write
}

type outcome[T integer] struct {
	value    Value[T]
	err      error
	panicked any // the panic of user code, such as an ACL provider
}

func newNumber[T integer](client *framework.Framework, path string, opts []Option) (*DistributedAtomicNumber[T], error) {
	value, err := NewDistributedAtomicValue(client, path, opts...)
	if err != nil {
		return nil, err
	}
	return &DistributedAtomicNumber[T]{value: value}, nil
}

// encode writes the number as Curator does.
func encode[T integer](n T) []byte {
	if _, long := any(n).(int64); long {
		return binary.BigEndian.AppendUint64(nil, uint64(n))
	}
	return binary.BigEndian.AppendUint32(nil, uint32(n))
}

// decode reads what encode writes. No data is 0, as Curator has it. Curator ignores what follows the
// number, but its classes write no more: longer data is a text, compressed, or a number of another size.
func decode[T integer](data []byte) (T, error) {
	size := binary.Size(T(0))
	switch {
	case len(data) == 0:
		return 0, nil
	case len(data) != size:
		return 0, fmt.Errorf("%w: %d bytes, expected %d", ErrCorrupted, len(data), size)
	case size == 8:
		return T(binary.BigEndian.Uint64(data)), nil
	default:
		return T(binary.BigEndian.Uint32(data)), nil
	}
}

// Path returns the path of the znode.
func (n *DistributedAtomicNumber[T]) Path() string { return n.value.Path() }

// Get returns the number, 0 if it was never set. It may be older than another client's
// newest change. A change never begins with an outdated number.
func (n *DistributedAtomicNumber[T]) Get(ctx context.Context) (T, error) {
	data, _, err := n.value.read(ctx)
	if err != nil {
		return 0, attempt.Wrapf(err, "atomic: get")
	}
	number, err := decode[T](data)
	return number, attempt.Wrapf(err, "atomic: get %s", n.Path())
}

// ForceSet sets the number whatever it is. An addition of another client may
// be lost with it. See [DistributedAtomicValue.ForceSet] for its errors.
func (n *DistributedAtomicNumber[T]) ForceSet(ctx context.Context, value T) error {
	return n.value.ForceSet(ctx, encode(value))
}

// Initialize sets the number if it was never set, and reports whether it did.
// See [DistributedAtomicValue.Initialize] for its errors.
func (n *DistributedAtomicNumber[T]) Initialize(ctx context.Context, value T) (bool, error) {
	return n.value.Initialize(ctx, encode(value))
}

// CompareAndSet sets the number if it is expected, and reports whether it was.
// A number that was never set is not expected by any call; use Initialize. See
// [DistributedAtomicValue.CompareAndSet] for its errors.
func (n *DistributedAtomicNumber[T]) CompareAndSet(ctx context.Context, expected, value T) (bool, error) {
	_, _, err := n.value.change(ctx, func(pre []byte, exists bool) ([]byte, error) {
		have, err := decode[T](pre)
		if err == nil && (!exists || have != expected) {
			err = errUnchanged
		}
		return encode(value), err
	})
	if errors.Is(err, errUnchanged) {
		return false, nil
	}
	return err == nil, attempt.Wrapf(err, "atomic: compare and set %s", n.Path())
}

// TrySet sets the number and returns the number that it replaces. Unlike ForceSet it
// loses no addition of another client. If [framework.OutcomeUnknown] is true for its
// error, the number may be set; it is set at most once.
func (n *DistributedAtomicNumber[T]) TrySet(ctx context.Context, value T) (Value[T], error) {
	outcome := n.change(ctx, func(T) T { return value })
	return outcome.value, attempt.Wrapf(outcome.err, "atomic: set %s", n.Path())
}

// Increment adds one.
func (n *DistributedAtomicNumber[T]) Increment(ctx context.Context) (Value[T], error) {
	return n.Add(ctx, 1)
}

// Decrement subtracts one.
func (n *DistributedAtomicNumber[T]) Decrement(ctx context.Context) (Value[T], error) {
	return n.Add(ctx, -1)
}

// Subtract subtracts delta.
func (n *DistributedAtomicNumber[T]) Subtract(ctx context.Context, delta T) (Value[T], error) {
	return n.Add(ctx, -delta)
}

// Add adds delta, and returns the number before and after. It wraps around as Go's
// integers do. Additions of several goroutines share a write; each gets its own numbers,
// in one order. Stats count the write. Additions within a [framework.Framework.Retry] share no
// write with other additions, as they may have another policy or session. A trace shows the
// write under the first addition.
//
// When ctx ends before the addition is part of a write, nothing is added. When
// it ends later, Add leaves the write, and [framework.OutcomeUnknown] is true for
// the error unless the write is known to have failed. The same holds when the reply
// to the write is lost: the addition may have been made, at most once.
func (n *DistributedAtomicNumber[T]) Add(ctx context.Context, delta T) (Value[T], error) {
	if ctx == nil {
		return Value[T]{}, attempt.Wrapf(attempt.ErrNilContext, "atomic: add to %s", n.Path())
	}
	if ctx.Err() != nil {
		return Value[T]{}, attempt.Wrapf(attempt.Interrupted(ctx), "atomic: add to %s", n.Path())
	}
	a := &addition[T]{ctx: ctx, delta: delta, done: make(chan outcome[T], 1)}
	n.mu.Lock()
	n.waiting = append(n.waiting, a)
	if !n.running {
		n.running = true
		go n.run()
	}
	n.mu.Unlock()
	var o outcome[T]
	select {
	case o = <-a.done:
	case <-ctx.Done():
		o = n.leave(a)
	}
	if o.panicked != nil {
		panic(o.panicked) // it is this caller's, as it would be without a shared write
	}
	return o.value, attempt.Wrapf(o.err, "atomic: add to %s", n.Path())
}

// leave returns the outcome of an addition whose context has ended.
func (n *DistributedAtomicNumber[T]) leave(a *addition[T]) outcome[T] {
	n.mu.Lock()
	written, last := a.in != nil, false
	if written {
		a.in.callers--
		if last = a.in.callers == 0; last {
			a.in.cancel(context.Cause(a.ctx))
		}
	} else {
		n.waiting = slices.DeleteFunc(n.waiting, func(other *addition[T]) bool { return other == a })
	}
	n.mu.Unlock()
	switch {
	case !written:
		return outcome[T]{err: attempt.Interrupted(a.ctx)}
	case last: // the write ends with its context, and knows whether it was sent
		o := <-a.done
		if errors.Is(o.err, context.Canceled) { // in the words of the last caller's context
			interrupted := attempt.Interrupted(a.ctx)
			if framework.OutcomeUnknown(o.err) {
				interrupted = attempt.InDoubt(interrupted)
			}
			o.err = interrupted
		}
		return o
	}
	select {
	case o := <-a.done:
		return o
	default:
		return outcome[T]{err: attempt.InDoubt(attempt.Interrupted(a.ctx))}
	}
}

// run makes writes until no addition waits.
func (n *DistributedAtomicNumber[T]) run() {
	for b := n.next(); b != nil; b = n.next() {
		n.write(b)
	}
}

// next takes the additions that wait, up to the first one of another scope. If there is none it
// ends the run.
func (n *DistributedAtomicNumber[T]) next() *batch[T] {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
		n.running = false
		return nil
	}
	all, scope := n.waiting, callscope.Of(n.waiting[0].ctx)
	end := slices.IndexFunc(all, func(a *addition[T]) bool { return callscope.Of(a.ctx) != scope })
	if end < 0 {
		end = len(all)
	}
	b := &batch[T]{additions: all[:end], callers: end}
	n.waiting = slices.Clone(all[end:])
	// The values of a context serve all; its end concerns one caller.
	b.ctx, b.cancel = context.WithCancelCause(context.WithoutCancel(b.additions[0].ctx))
	for _, a := range b.additions {
		a.in = b
	}
	return b
}

// write makes one change of a batch of additions and gives each its part. In the order
// of the batch, each addition begins with the result of the addition before it.
func (n *DistributedAtomicNumber[T]) write(b *batch[T]) {
	defer b.cancel(nil)
	var sum T
	for _, a := range b.additions {
		sum += a.delta
	}
	o := n.changeOrPanic(b.ctx, func(pre T) T { return pre + sum })
	at := o.value.Pre
	for _, a := range b.additions {
		if o.err == nil && o.panicked == nil {
			o.value.Pre, o.value.Post = at, at+a.delta
			at = o.value.Post
		}
		a.done <- o
	}
}

// changeOrPanic is change on a goroutine that has no caller to panic to.
func (n *DistributedAtomicNumber[T]) changeOrPanic(ctx context.Context, next func(T) T) (o outcome[T]) {
	err := attempt.Guard(n.value.cfg.client, func() error {
		o = n.change(ctx, next)
		return nil
	})
	if panicked := (*attempt.PanicError)(nil); errors.As(err, &panicked) {
		o = outcome[T]{panicked: panicked.Value}
	}
	return o
}

// change changes the number to what next makes of it.
func (n *DistributedAtomicNumber[T]) change(ctx context.Context, next func(T) T) outcome[T] {
	var value Value[T]
	_, stats, err := n.value.change(ctx, func(data []byte, _ bool) ([]byte, error) {
		pre, err := decode[T](data)
		if err != nil {
			return nil, err
		}
		value.Pre, value.Post = pre, next(pre)
		return encode(value.Post), nil
	})
	if err != nil {
		return outcome[T]{err: err}
	}
	value.Stats = stats
	return outcome[T]{value: value}
}
