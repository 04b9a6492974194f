// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// foreignCauses are errors with which another call has failed, as the first of an
// errgroup's goroutines has when it ends the context of the others.
var foreignCauses = []error{
	framework.ErrNoNode, framework.ErrNodeExists, framework.ErrBadVersion, framework.ErrNotEmpty, framework.ErrNoAuth,
	framework.ErrConnectionLost, framework.ErrSessionExpired, framework.ErrSessionEnded, framework.ErrClosed,
	framework.ErrUnsupported, framework.ErrCleanupPending, framework.ErrNotReadOnly,
	errors.Join(framework.ErrNoNode, framework.ErrNodeExists),
	&framework.OpError{Op: "get", Path: "/other", Err: framework.ErrNoNode},
	&framework.LostError{Reason: framework.ReasonLeaseEnd},
}

// callsThatBranch are verbs that do more than pass the server's answer on.
var callsThatBranch = map[string]func(ctx context.Context, f *framework.Framework) error{
	"delete quietly": func(ctx context.Context, f *framework.Framework) error {
		return f.Delete(ctx, "/node", framework.Quietly())
	},
	"delete idempotent": func(ctx context.Context, f *framework.Framework) error {
		return f.Delete(ctx, "/node", framework.Idempotent())
	},
	"delete with children": func(ctx context.Context, f *framework.Framework) error {
		return f.Delete(ctx, "/node", framework.DeletingChildrenIfNeeded())
	},
	"delete children": func(ctx context.Context, f *framework.Framework) error { return f.DeleteChildren(ctx, "/node") },
	"mkdirs":          func(ctx context.Context, f *framework.Framework) error { return f.Mkdirs(ctx, "/a/b/c") },
	"containers":      func(ctx context.Context, f *framework.Framework) error { return f.CreateContainers(ctx, "/a/b/c") },
	"create or set": func(ctx context.Context, f *framework.Framework) error {
		_, err := f.Create(ctx, "/node", nil, framework.OrSetData())
		return err
	},
	"create idempotent": func(ctx context.Context, f *framework.Framework) error {
		_, err := f.Create(ctx, "/node", nil, framework.Idempotent())
		return err
	},
	"create with parents": func(ctx context.Context, f *framework.Framework) error {
		_, err := f.Create(ctx, "/a/b/c", nil, framework.CreatingParentsIfNeeded(), framework.WithProtection())
		return err
	},
	"set idempotent": func(ctx context.Context, f *framework.Framework) error {
		return f.Set(ctx, "/node", nil, framework.Idempotent(), framework.WithVersion(0))
	},
	"get": func(ctx context.Context, f *framework.Framework) error { _, err := f.Get(ctx, "/node"); return err },
	"get absent": func(ctx context.Context, f *framework.Framework) error {
		var absent bool
		_, err := f.Get(ctx, "/node", framework.StoringAbsenceIn(&absent))
		return err
	},
	"exists": func(ctx context.Context, f *framework.Framework) error { _, err := f.Exists(ctx, "/node"); return err },
	"exists with parents": func(ctx context.Context, f *framework.Framework) error {
		_, err := f.Exists(ctx, "/a/b/c", framework.CreatingParentsIfNeeded())
		return err
	},
	"transact": func(ctx context.Context, f *framework.Framework) error {
		_, err := f.Transact(ctx, framework.DeleteOp("/node"))
		return err
	},
	"add watch": func(ctx context.Context, f *framework.Framework) error {
		_, err := f.AddWatch(ctx, "/node", framework.WatchPersistent)
		return err
	},
	"retry": func(ctx context.Context, f *framework.Framework) error {
		return f.Retry(ctx, func(ctx context.Context) error { return f.Set(ctx, "/node", nil) })
	},
}

// TestInterruptedCauseIsNoAnswer: a call whose context has ended says so, whatever the cause of the
// end would mean if a server had said it, and has changed nothing.
func TestInterruptedCauseIsNoAnswer(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr())
	mustCreate(t, f, "/node")
	for _, cause := range foreignCauses {
		for name, call := range callsThatBranch {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			requireInterrupted(t, call(ctx, f), cause, "%s, %v", name, cause)
		}
	}
	_, err := f.Get(t.Context(), "/node")
	require.NoError(t, err, "nothing was sent")
	requireNone(t, f, "/a")
}

func requireInterrupted(t *testing.T, err, cause error, says string, args ...any) {
	t.Helper()
	says = fmt.Sprintf(says, args...)
	require.ErrorIs(t, err, context.Canceled, says)
	var op *framework.OpError
	require.ErrorAs(t, err, &op, says)
	require.NotEqual(t, "/other", op.Path, says)
	require.False(t, framework.Retryable(err), says)
	require.False(t, framework.OutcomeUnknown(err), says)
	require.Equal(t, "canceled", framework.ErrorType(err), says)
	for _, answer := range foreignCauses[:12] {
		require.NotErrorIs(t, err, answer, says)
	}
	var ended *framework.InterruptedError
	require.ErrorAs(t, err, &ended, says)
	require.Equal(t, cause, ended.Cause, says)
	var want, got *framework.LostError
	require.Equal(t, errors.As(cause, &want), errors.As(err, &got), says)
	require.Equal(t, want, got, says)
}

// TestInterruptedCauseDuringACallIsNoAnswer: the context ends while the reply is on its way. Nothing
// may be repeated, and nobody may spin.
func TestInterruptedCauseDuringACallIsNoAnswer(t *testing.T) {
	for name, call := range callsThatBranch {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				f := n.client(t)
				mustCreate(t, f, "/node")
				requests := 0
				free := make(chan struct{})
				defer close(free)
				n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op == zkserver.OpPing || r.Op == zkserver.OpCloseSession {
						return zkserver.Pass
					}
					requests++
					return zkserver.HoldUntil(free)
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				done := make(chan error, 1)
				go func() { done <- call(ctx, f) }()
				synctest.Wait()
				cancel(errors.Join(framework.ErrNoNode, framework.ErrNodeExists))
				err := <-done // at once
				require.ErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, framework.ErrNoNode)
				require.NotErrorIs(t, err, framework.ErrNodeExists)
				require.LessOrEqual(t, requests, 1)
			})
		})
	}
}

// noCauseError is an error whose method panics on a nil pointer.
type noCauseError struct{ text string }

func (e *noCauseError) Error() string { return e.text }

// A program that ends a context with a nil pointer as its cause can print the error.
func TestInterruptedErrorNamesItsCause(t *testing.T) {
	for want, cause := range map[string]error{
		"context canceled":         (*noCauseError)(nil),
		"context canceled: enough": &noCauseError{"enough"},
	} {
		require.EqualError(t, &framework.InterruptedError{Err: context.Canceled, Cause: cause}, want)
	}
	require.EqualError(t, &framework.InterruptedError{Err: context.Canceled, Cause: context.Canceled}, "context canceled")
	require.EqualError(t, &framework.InterruptedError{Err: context.Canceled}, "context canceled")
}
