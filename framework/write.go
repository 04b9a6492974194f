package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework/internal/jute"
)

// setConfig is what the options of Set set.
type setConfig struct {
	version int32
	stat    *Stat
}

// SetOption is an option of [Framework.Set] and [SetDataOp].
type SetOption interface{ applySet(*setConfig) error }

//nolint:unparam // other options of Set can fail
func (o VersionOption) applySet(c *setConfig) error { c.version = int32(o); return nil }
func (o StatOption) applySet(c *setConfig) error    { return o.store(&c.stat) }

// Set replaces the data of a znode. It is retried as the policy says, but never
// after a try whose outcome is unknown: then the error says so, see
// [OutcomeUnknown].
func (f *Framework) Set(ctx context.Context, path string, data []byte, opts ...SetOption) error {
	cfg := setConfig{version: AnyVersion}
	if err := applyAll(opts, func(o SetOption) error { return o.applySet(&cfg) }); err != nil {
		return failed(opSet, path, err)
	}
	full, err := f.writable(path)
	if err != nil {
		return failed(opSet, path, err)
	}
	e := jute.NewEncoder(len(full) + len(data) + 12)
	e.String(full)
	e.Buffer(data)
	e.Int32(cfg.version)
	return failed(opSet, path, f.send(ctx, false, &call{
		operation: opSet, path: path, body: e.Bytes(),
		decode: func(d *jute.Decoder) {
			var stat Stat
			decodeStat(d, &stat)
			if d.Err() == nil && cfg.stat != nil {
				*cfg.stat = stat
			}
		},
	}))
}

// deleteConfig is what the options of Delete set.
type deleteConfig struct {
	version    int32
	guaranteed bool
	background bool
}

// DeleteOption is an option of [Framework.Delete] and [DeleteOp].
type DeleteOption interface{ applyDelete(*deleteConfig) error }

//nolint:unparam // the interface is that of options which can fail
func (o VersionOption) applyDelete(c *deleteConfig) error { c.version = int32(o); return nil }

type guaranteedOption struct{}

// Guaranteed makes a delete that could not be completed go on in the background,
// until it has succeeded or the client is closed. The call then returns an error
// that matches [ErrCleanupPending]. The context of the call, even one that has
// ended before it, bounds only how long the caller waits. It is Curator's
// guaranteed().
//
// A late delete hits whatever has the path by then: use it for names that are never
// used again, such as those of [WithProtection].
func Guaranteed() DeleteOption { return guaranteedOption{} }

func (guaranteedOption) applyDelete(c *deleteConfig) error { c.guaranteed = true; return nil }

type backgroundOption struct{}

// InBackground makes Delete return at once, and delete as with [Guaranteed]. An
// error then says that the client is not started or closed. It is Curator's
// guaranteed().inBackground().
func InBackground() DeleteOption { return backgroundOption{} }

func (backgroundOption) applyDelete(c *deleteConfig) error {
	c.guaranteed, c.background = true, true
	return nil
}

// Delete removes a znode that has no children. Without [Guaranteed] it is not
// repeated after a try whose outcome is unknown.
func (f *Framework) Delete(ctx context.Context, path string, opts ...DeleteOption) error {
	cfg := deleteConfig{version: AnyVersion}
	if err := applyAll(opts, func(o DeleteOption) error { return o.applyDelete(&cfg) }); err != nil {
		return failed(opDelete, path, err)
	}
	c, err := f.deleteCall(path, cfg.version)
	if err != nil {
		return failed(opDelete, path, err)
	}
	switch {
	case cfg.background:
		return failed(opDelete, path, f.deleteLater(c))
	case cfg.guaranteed:
		return f.deleteGuaranteed(ctx, c)
	default:
		return failed(opDelete, path, f.send(ctx, false, c))
	}
}

func (f *Framework) deleteCall(path string, version int32) (*call, error) {
	full, err := f.writable(path)
	if err != nil {
		return nil, err
	}
	e := jute.NewEncoder(len(full) + 8)
	e.String(full)
	e.Int32(version)
	return &call{operation: opDelete, path: path, body: e.Bytes()}, nil
}

func (f *Framework) deleteGuaranteed(ctx context.Context, c *call) error {
	inDoubt := false
	err := f.measured(ctx, opDelete, c.path, func(ctx context.Context) error {
		err := f.exchange(ctx, c)
		if inDoubt && errors.Is(err, ErrNoNode) {
			return nil // an earlier try of ours did it
		}
		inDoubt = inDoubt || OutcomeUnknown(err)
		return err
	})
	err = failed(opDelete, c.path, err)
	undecided := Retryable(err) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
	if !undecided || f.deleteLater(c) != nil {
		return err // when closed, the session takes its ephemeral nodes along
	}
	return &OpError{c.name, c.path, fmt.Errorf("%w: %w", ErrCleanupPending, err)}
}

func (f *Framework) deleteLater(c *call) error {
	if err := f.usable(); err != nil {
		return err
	}
	if !f.janitor.add(func(ctx context.Context) error { return f.exchange(ctx, c) }) {
		return ErrClosed
	}
	return nil
}

// writable checks a path that is to be changed and returns it as the server
// knows it.
func (f *Framework) writable(path string) (string, error) {
	if err := ValidatePath(path); err != nil {
		return "", err
	}
	full := f.cfg.root.full(path)
	if isReserved(full) {
		return "", fmt.Errorf("%w %q: %s is ZooKeeper's own", ErrInvalidPath, path, reserved)
	}
	return full, nil
}
