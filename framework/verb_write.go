// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"

	"github.com/gocurator/curator/framework/internal/wire"
)

func newSetConfig(opts []SetOption) (*callConfig, error) {
	cfg := &callConfig{version: AnyVersion}
	return cfg, configure(cfg, opts, anyOption, "")
}

// Set replaces the data of a znode. The error matches [ErrNoNode] if there is no znode, and
// [ErrBadVersion] if it does not have the version of [WithVersion]. It is retried as the
// policy says, but without [Idempotent] never after a try whose outcome is unknown, see
// [OutcomeUnknown].
func (f *Framework) Set(ctx context.Context, path string, data []byte, opts ...SetOption) error {
	cfg, err := newSetConfig(opts)
	s := setting{f: f, path: path, data: data, cfg: cfg}
	return s.run(ctx, err)
}

// run sets the data, unless there is an error in the options.
func (s *setting) run(ctx context.Context, err error) error {
	if err == nil {
		s.data, err = s.f.stored(s.path, s.data, &s.cfg.common)
	}
	p := plan{common: s.cfg.common, attempt: s.attempt, repeatable: s.cfg.has(idempotent)}
	err = s.f.run(ctx, opSet, s.path, p, err)
	if err == nil && s.cfg.stat != nil {
		*s.cfg.stat = s.stat
	}
	return err
}

// setting is one Set under way.
type setting struct {
	f    *Framework
	path string
	data []byte // as it is sent
	cfg  *callConfig

	stat Stat
}

// attempt sends the request. With Idempotent it reads the znode after a version that does
// not match.
func (s *setting) attempt(ctx context.Context) error {
	c, err := s.request()
	if err != nil {
		return err
	}
	refused := s.f.exchange(ctx, c)
	if !s.cfg.has(idempotent) || !isReply(refused, ErrBadVersion) {
		return refused
	}
	data, stat, err := s.f.readForComparison(ctx, s.path)
	switch {
	case isReply(err, ErrNoNode):
		return refused // deleted since: report the first answer
	case err != nil:
		return err
	// Only the next version with this data can be the write of an earlier try.
	case stat.Version != s.cfg.version+1 || !bytes.Equal(data, s.data):
		return refused
	}
	s.stat = stat
	return nil
}

func (s *setting) request() (*call, error) {
	e := wire.NewEncoder(len(s.f.root) + len(s.path) + len(s.data) + 12)
	if err := s.encode(e); err != nil {
		return nil, err
	}
	return &call{
		operation: opSet, path: s.path, body: e.Bytes(),
		decode: func(d wire.Decoder) error { s.stat = d.Stat(); return d.Err() },
	}, nil
}

func (s *setting) encode(e *wire.Encoder) error {
	full, err := s.f.root.writable(s.path)
	if err != nil {
		return err
	}
	e.String(full)
	e.Buffer(s.data)
	e.Int32(s.cfg.version)
	return nil
}

// onExisting returns the outcome of a create that found an existing znode. refused is the
// server's error. The result errAgain means that the znode has vanished in between.
func (c *creation) onExisting(ctx context.Context, refused error) error {
	var stat Stat
	var err error
	switch {
	case c.cfg.has(orSetData):
		stat, err = c.setExisting(ctx)
	case c.cfg.has(idempotent):
		stat, err = c.takeExisting(ctx, refused)
	default:
		return refused
	}
	if isReply(err, ErrNoNode) {
		return errAgain // it has vanished since the create found it
	}
	if err == nil {
		c.made(c.path, stat)
		if c.cfg.siblings != nil {
			*c.cfg.siblings = nil
		}
	}
	return err
}

// setExisting sets the data of the existing znode, for OrSetData.
func (c *creation) setExisting(ctx context.Context) (Stat, error) {
	s := setting{
		f: c.f, path: c.path, data: c.data,
		cfg: &callConfig{version: c.cfg.version, common: common{given: c.cfg.given & idempotent}},
	}
	err := s.attempt(ctx)
	return s.stat, err
}

// takeExisting accepts the existing znode as the created one, if it is alike.
func (c *creation) takeExisting(ctx context.Context, refused error) (Stat, error) {
	data, stat, err := c.f.readForComparison(ctx, c.path)
	switch {
	case err != nil:
		return stat, err
	case stat.Version != 0 || !bytes.Equal(data, c.data):
		return stat, refused // changed since, or another client's: not the effect of this create
	case c.cfg.mode.isEphemeral() && stat.EphemeralOwner != c.owner():
		return stat, refused
	}
	return stat, nil
}

// readForComparison reads data as it is at the server, within a try of a write.
func (f *Framework) readForComparison(ctx context.Context, path string) (data []byte, stat Stat, err error) {
	err = f.readOnce(ctx, ReadData(path, &data, StoringStatIn(&stat), Undecompressed()))
	return data, stat, err
}
