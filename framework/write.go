package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework/internal/jute"
	"github.com/gocurator/curator/retry"
)

// setConfig is what the options of Set set.
type setConfig struct {
	version    int32
	stat       *Stat
	idempotent bool
	compressed bool
	retry      retry.Policy
}

// SetOption is an option of [Framework.Set] and [SetDataOp].
type SetOption interface{ applySet(*setConfig) error }

//nolint:unparam // other options of Set can fail
func (o VersionOption) applySet(c *setConfig) error { c.version = int32(o); return nil }
func (o StatOption) applySet(c *setConfig) error    { return o.store(&c.stat) }

func newSetConfig(opts []SetOption) (setConfig, error) {
	cfg := setConfig{version: AnyVersion}
	err := applyAll(opts, func(o SetOption) error { return o.applySet(&cfg) })
	return cfg, err
}

// Set replaces the data of a znode. It is retried as the policy says, but without
// [Idempotent] never after a try whose outcome is unknown: then the error says so,
// see [OutcomeUnknown].
func (f *Framework) Set(ctx context.Context, path string, data []byte, opts ...SetOption) error {
	cfg, err := newSetConfig(opts)
	if err != nil {
		return failed(opSet, path, err)
	}
	data, err = f.stored(path, data, cfg.compressed)
	if err != nil {
		return failed(opSet, path, err)
	}
	s := setting{f: f, path: path, data: data, cfg: cfg}
	if cfg.idempotent {
		err = f.repeat(ctx, cfg.retry, opSet, path, s.attempt)
	} else {
		err = f.measured(ctx, cfg.retry, opSet, path, permanentInDoubt(s.attempt))
	}
	if err == nil && cfg.stat != nil {
		*cfg.stat = s.stat
	}
	return failed(opSet, path, err)
}

// setting is one Set under way.
type setting struct {
	f       *Framework
	path    string
	data    []byte // as it is sent
	cfg     setConfig
	session *Session

	stat Stat
}

// attempt sends the request; a version that does not match is looked into, if the
// options say so.
func (s *setting) attempt(ctx context.Context) error {
	c, err := s.request()
	if err != nil {
		return err
	}
	refused := s.f.exchange(ctx, c)
	if !s.cfg.idempotent || !errors.Is(refused, ErrBadVersion) {
		return refused
	}
	data, stat, err := s.f.readForComparison(ctx, s.path)
	switch {
	case errors.Is(err, ErrNoNode):
		return refused
	case err != nil:
		return err
	case stat.Version != s.cfg.version+1 || !bytes.Equal(data, s.data):
		return refused
	}
	s.stat = stat
	return nil
}

func (s *setting) request() (*call, error) {
	var e jute.Encoder
	if err := s.encode(&e); err != nil {
		return nil, err
	}
	return &call{
		operation: opSet, path: s.path, session: s.session, body: e.Bytes(),
		decode: func(d *jute.Decoder) { decodeStat(d, &s.stat) },
	}, nil
}

func (s *setting) encode(e *jute.Encoder) error {
	full, err := s.f.writable(s.path)
	if err != nil {
		return err
	}
	e.String(full)
	e.Buffer(s.data)
	e.Int32(s.cfg.version)
	return nil
}

// writable checks a path that is to be changed and returns it as the server
// knows it.
func (f *Framework) writable(path string) (string, error) {
	if err := ValidatePath(path); err != nil {
		return "", err
	}
	full := f.root.full(path)
	if isReserved(full) {
		return "", fmt.Errorf("%w %q: %s is ZooKeeper's own", ErrInvalidPath, path, reserved)
	}
	return full, nil
}
