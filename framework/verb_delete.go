// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework/internal/wire"
)

// Guaranteed makes a delete that could not be completed go on in the background, until it
// succeeds or the client is closed. The call then returns an error that matches
// [ErrCleanupPending]. A delete refused for missing permissions is logged once and retried
// too, with pauses that grow to about 30 seconds. The context of the call, even if it has
// ended already, bounds only how long the caller waits. It is Curator's guaranteed().
//
// A late delete hits any znode that has the path by then. So use it for names that are never
// reused, such as the names made by [WithProtection].
func Guaranteed() DeleteOption { return flag{is: guaranteed} }

// InBackground makes Delete return at once, and delete in the background as with
// [Guaranteed]. Delete then fails only if an argument is invalid, or the client is not
// started or closed. It is Curator's guaranteed().inBackground().
func InBackground() DeleteOption { return flag{is: inBackground} }

// DeletingChildrenIfNeeded deletes a znode that has children together with all znodes below
// it, the deepest first. It is not atomic: a call that fails may have deleted some
// of them, which [OutcomeUnknown] does not report. Znodes that other clients delete during
// the call count as deleted, including the znode itself; znodes that they create are deleted
// too. A version that does not match is noticed before anything is deleted.
func DeletingChildrenIfNeeded() DeleteOption { return flag{is: deletingChildren} }

// Quietly makes the delete of a missing znode succeed. Unlike [Idempotent] it does not make
// Delete repeat a try whose outcome is unknown.
func Quietly() DeleteOption { return flag{is: quietly} }

// Delete removes a znode. The error matches [ErrNoNode] if there is no znode, and
// [ErrNotEmpty] if it has children and [DeletingChildrenIfNeeded] is not given. Without
// [Guaranteed] or [Idempotent], Delete is not repeated after a try whose outcome is unknown.
//
// The root cannot be deleted, and neither can a chroot. The / of a view is its namespace,
// which can be deleted.
func (f *Framework) Delete(ctx context.Context, path string, opts ...DeleteOption) error {
	d := &deletion{f: f}
	return d.run(ctx, path, d.cfg.configureDelete(opts))
}

// run deletes the znode, unless there is an error in the options.
func (d *deletion) run(ctx context.Context, path string, err error) error {
	if err == nil {
		err = d.prepare(path)
	}
	// Nothing is sent within the call: the first try is the janitor's.
	if err == nil && ctx != nil && d.cfg.has(inBackground) {
		return failed(opDelete, path, d.later())
	}
	p := plan{common: d.cfg.common, attempt: d.attempt, repeatable: d.cfg.has(idempotent) || d.cfg.isGuaranteed()}
	if d.cfg.isGuaranteed() {
		p.settles = d
	}
	return d.f.run(ctx, opDelete, path, p, err)
}

// configureDelete applies the options of a delete.
func (c *callConfig) configureDelete(opts []DeleteOption) error {
	c.version = AnyVersion
	err := configure(c, opts, anyOption, "")
	// The janitor outlives the call, so it cannot follow the call's policy or session.
	switch {
	case err != nil:
	case c.has(inBackground) && c.has(withRetry):
		err = fmt.Errorf("%w: WithRetry with InBackground, which goes on until it has succeeded", ErrInvalidOption)
	case c.isGuaranteed() && c.has(inSession|inHistory):
		err = fmt.Errorf("%w: %v with %v, which goes on in any session", ErrInvalidOption, c.given&(inSession|inHistory), c.given&(guaranteed|inBackground))
	}
	return err
}

// prepare checks the path and builds the request.
func (d *deletion) prepare(path string) error {
	full, err := d.f.deletable(path)
	if err != nil {
		return err
	}
	d.call = deleteCall(full, path, d.cfg.version)
	return nil
}

// DeleteChildren deletes all znodes below a znode, the deepest first, and keeps the znode
// itself. The contract of [DeletingChildrenIfNeeded] applies; a missing znode has no
// children. Below the servers' root, ZooKeeper's own /zookeeper stays. The call may be
// repeated any number of times. The client repeats it after a try whose outcome is unknown.
// It is Curator's ZKPaths.deleteChildren.
func (f *Framework) DeleteChildren(ctx context.Context, path string, opts ...CallOption) error {
	cfg, err := newCommon(opts)
	if err == nil {
		_, err = f.root.writable(path)
	}
	attempt := func(ctx context.Context) error { return f.deleteBelow(ctx, path) }
	return f.run(ctx, opDelete, path, plan{common: cfg, attempt: attempt}, err)
}

func (f *Framework) deleteCall(path string, version int32) (*call, error) {
	full, err := f.deletable(path)
	if err != nil {
		return nil, err
	}
	c := deleteCall(full, path, version)
	return &c, nil
}

func deleteCall(full, path string, version int32) call {
	e := wire.NewEncoder(len(full) + 8)
	e.String(full)
	e.Int32(version)
	return call{operation: opDelete, path: path, body: e.Bytes()}
}

// deletable checks a path for deletion and returns the server's path.
func (f *Framework) deletable(path string) (string, error) {
	// The / of a view is its namespace, an ordinary znode.
	if path == "/" && f == f.base {
		return "", &pathError{path, "the root cannot be deleted"}
	}
	return f.root.writable(path)
}

// deletion is one Delete under way.
type deletion struct {
	f    *Framework
	cfg  callConfig
	call call
	seen bool // the znode had children, so that it existed during the call

	inDoubt bool // an earlier try may have deleted it
}

// attempt sends the request and, if the znode has children and the options permit it,
// deletes the children first.
func (d *deletion) attempt(ctx context.Context) error {
	for {
		err := d.f.exchange(ctx, &d.call)
		switch {
		// An earlier try may have deleted it, or its absence is what was asked for.
		case isReply(err, ErrNoNode) && (d.seen || d.inDoubt || d.cfg.has(quietly|idempotent)):
			return nil
		case !d.cfg.has(deletingChildren) || !isReply(err, ErrNotEmpty):
			d.inDoubt = d.inDoubt || OutcomeUnknown(err)
			return err
		}
		d.seen = true
		if err := d.f.deleteBelow(ctx, d.call.path); err != nil {
			return err
		}
	}
}

// deletesAtOnce is how many deletes deleteBelow sends in one write.
const deletesAtOnce = 100

// deleteBelow deletes the znodes below a path. It is repeated together with the attempt
// that needs it. The outcome of an unanswered delete does not matter: the next try lists
// the children again.
func (f *Framework) deleteBelow(ctx context.Context, path string) error {
	var names []string
	list, err := f.listCall(path, &names)
	if err == nil {
		err = f.exchange(ctx, list)
	}
	if err != nil {
		return err
	}
	// Servers refuse to delete their own tree, and the rest would stay because of it.
	names = slices.DeleteFunc(names, func(name string) bool { return isReserved(f.root.full(JoinPath(path, name))) })
	for some := range slices.Chunk(names, deletesAtOnce) {
		if err := f.deleteChildren(ctx, path, some); err != nil {
			return err
		}
	}
	return nil
}

// deleteChildren deletes children of a path with all that is below them.
func (f *Framework) deleteChildren(ctx context.Context, parent string, names []string) error {
	for len(names) > 0 {
		var notEmpty []string
		calls := make([]*call, len(names))
		for i, name := range names {
			c, err := f.deleteCall(JoinPath(parent, name), AnyVersion)
			if err != nil {
				return err
			}
			c.write = false // the next list of the children shows whether it was applied
			c.refused = func(err error) error {
				if errors.Is(err, ErrNotEmpty) {
					notEmpty = append(notEmpty, name)
					return nil
				}
				return ignoring(err, ErrNoNode)
			}
			calls[i] = c
		}
		if err := f.exchange(ctx, calls...); err != nil {
			return err
		}
		for _, name := range notEmpty {
			if err := f.deleteBelow(ctx, JoinPath(parent, name)); err != nil {
				return err
			}
		}
		// Other clients may have created more below them by now, so around again.
		names = notEmpty
	}
	return nil
}

// settle hands a failed deletion to the janitor, if it may succeed later.
func (d *deletion) settle(err error) error {
	// The last try may have failed for sure, but an earlier one may have deleted it.
	if d.inDoubt && !OutcomeUnknown(err) {
		err = fmt.Errorf("%w: %w", errOutcomeUnknown, reasonOf(err))
	}
	var ended *InterruptedError
	undecided := mayPass(err) || errors.As(err, &ended)
	if !undecided || d.later() != nil {
		return err // after Close nothing can delete it, but an ephemeral node goes with its session
	}
	return &OpError{opDelete.name, d.call.path, fmt.Errorf("%w: %w", ErrCleanupPending, reasonOf(err))}
}

func (d *deletion) later() error {
	if err := d.f.usable(); err != nil {
		return err
	}
	parent, _ := SplitPath(d.call.path)
	if !d.f.janitor.Add(d.f.root.full(parent), d.attempt) {
		return d.f.ended()
	}
	return nil
}
