// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/usercode"
)

// Wrapf returns an error that says what has failed, for which the format is, and why. It returns nil for nil.
func Wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// At puts the package and the path of a call in front of its error, and not the path if the error names it.
func At(pkg, path string, err error) error {
	var op *framework.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &op) && op.Path == path,
		errors.Is(err, framework.ErrInvalidPath) && strings.Contains(err.Error(), strconv.Quote(path)):
		return fmt.Errorf("%s: %w", pkg, err)
	default:
		return fmt.Errorf("%s: %s: %w", pkg, path, err)
	}
}

// Then returns the error of a write in doubt with what a later try was answered.
func Then(doubt, answer error) error {
	var first, op *framework.OpError
	if errors.As(doubt, &first) && errors.As(answer, &op) && op.Op == first.Op && op.Path == first.Path {
		answer = op.Err // the doubt names the verb and the path
	}
	return fmt.Errorf("%w (and then %w)", doubt, answer)
}

// Conditional makes a write that the server applies only on a condition, such as the version of a
// znode, and repeats it when its outcome is unknown. If the first write was applied, its own
// condition keeps the second from being applied, so the write is applied at most once. But then
// Conditional cannot distinguish it from a write of another process, and
// [framework.OutcomeUnknown] is true for the error.
func Conditional(write func() error) error {
	first := write()
	for err := first; ; err = write() {
		switch {
		case err == nil || !framework.OutcomeUnknown(first):
			return err
		case !framework.OutcomeUnknown(err):
			// The condition has answered, so the doubt about the first one stays.
			return Then(first, err)
		case !framework.Retryable(err):
			return err
		}
	}
}

// ErrVersionExhausted says that no condition on the version can be made: -1 would be no condition at all.
var ErrVersionExhausted = errors.New("the znode has been written 2^32 - 1 times, it must be deleted before it is changed again")

// Replace writes the data of a znode that was read with this version, in this history, as [Conditional] does. It is
// overtaken if the znode was written, deleted or belongs to another history since: then it has written nothing.
func Replace(
	ctx context.Context, client *framework.Framework, path string, data []byte, version int32, history int64, opts ...framework.SetOption,
) (overtaken bool, err error) {
	if version == framework.AnyVersion {
		return false, ErrVersionExhausted
	}
	opts = append(slices.Clip(opts), framework.WithVersion(version), framework.InHistory(history))
	err = Conditional(func() error { return client.Set(ctx, path, data, opts...) })
	if Overtaken(err) || NotSent(err) {
		return true, nil
	}
	return false, err
}

// Overtaken reports whether a conditional write has certainly failed because
// the znode was written, created or deleted first.
func Overtaken(err error) bool {
	return !framework.OutcomeUnknown(err) &&
		(errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNoNode) || errors.Is(err, framework.ErrNodeExists))
}

// NotSent reports whether a write was not sent because its session or its history has ended.
func NotSent(err error) bool {
	return errors.Is(err, framework.ErrSessionEnded) && !framework.OutcomeUnknown(err)
}

// RefusedForNow reports whether a server has refused a request for a reason that may end without
// an event: a quota, or an error inside the server. The retry policy does not repeat such a request.
func RefusedForNow(err error) bool {
	return errors.As(err, new(framework.ServerError)) && !errors.Is(err, framework.ErrUnsupported)
}

// InDoubt returns err as one for which [framework.OutcomeUnknown] is true: the
// caller leaves while a write is under way.
func InDoubt(err error) error { return inDoubtError{err} }

type inDoubtError struct{ error }

func (e inDoubtError) Error() string {
	return e.error.Error() + ": a write is under way, its outcome is unknown"
}

func (e inDoubtError) Unwrap() error { return e.error }

// Is matches what framework.OutcomeUnknown looks for.
func (inDoubtError) Is(target error) bool { return framework.OutcomeUnknown(target) }

// Plain returns the data of a znode that was read [framework.Undecompressed], as the client reads all data. Data
// that cannot be decompressed is returned as it is: any program can write it, and it must fail no call that also
// concerns other znodes.
func Plain(client *framework.Framework, path string, stored []byte) []byte {
	if !client.CompressionEnabled() {
		return stored
	}
	data := stored
	err := Catch(func() (err error) {
		data, err = client.Decompress(path, stored)
		return err
	})
	if err != nil {
		return stored
	}
	return data
}

// PanicError is the panic of user code that ran on a goroutine of a recipe.
type PanicError = usercode.PanicError

// Guard calls fn on a goroutine of a recipe, and returns its error. A panic
// of user code that fn calls must not end the process: it is logged with its
// stack and returned as a [*PanicError].
func Guard(client *framework.Framework, fn func() error) error {
	ended := make(chan error, 1)
	go GuardHere(client, fn, func(err error) { ended <- err })
	return <-ended
}

// GuardHere is Guard on the goroutine of its caller, which fn may end. It calls done with the
// error, last and in any case.
func GuardHere(client *framework.Framework, fn func() error, done func(error)) {
	var err error
	usercode.Call(func() { err = fn() }, func(p *PanicError) {
		if p != nil {
			client.Logger().Error("user code panicked", "panic", p.Value, "stack", p.Stack)
			err = p
		}
		done(err)
	})
}

// Catch calls fn and returns its error, or its panic as a [*PanicError], which
// the caller logs. It calls fn on a goroutine of its own; see [usercode.Apart].
func Catch(fn func() error) (err error) {
	if p := usercode.Apart(func() { err = fn() }); p != nil {
		return p
	}
	return err
}

// Remove deletes the znode of an attempt, in the background if it must be. It returns nil if
// the znode is gone, is being deleted, or goes with the session of a client that has ended. It returns an error if the client
// may not delete the znode, although it goes on to try: others wait for the znode until it may.
func Remove(ctx context.Context, client *framework.Framework, path string) error {
	err := client.Delete(ctx, path, framework.Guaranteed())
	switch {
	case errors.Is(err, framework.ErrNoNode), errors.Is(err, framework.ErrCleanupPending) && !errors.Is(err, framework.ErrNoAuth), Ended(client) != nil:
		return nil //nolint:nilerr // the znode goes with the session of a client that has ended
	default:
		return err
	}
}

// TakeBack removes the znode of an attempt that has failed, and returns the cause of the
// failure.
func TakeBack(ctx context.Context, client *framework.Framework, path string, cause error) error {
	// What has no valid path was never created.
	if err := Remove(ctx, client, path); err != nil && !errors.Is(err, framework.ErrInvalidPath) {
		return fmt.Errorf("%w (and its node stays: %w)", cause, err)
	}
	return cause
}

// AwaitAbsence waits until there is no znode at path. It reads the data, as a
// watch set by exists would stay at a server where there is none.
func AwaitAbsence(ctx context.Context, client *framework.Framework, path string) error {
	for {
		var watch *framework.Watch
		_, err := client.Get(ctx, path, framework.Watched(&watch), framework.Undecompressed())
		if errors.Is(err, framework.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = watch.Wait(ctx)
		watch.Cancel()
		if err != nil {
			return err
		}
	}
}
