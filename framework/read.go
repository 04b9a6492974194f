package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/jute"
	"github.com/gocurator/curator/retry"
)

var (
	errRetryInPipeline = errors.New("WithRetry in a pipeline of several reads, expected Retry around it")

	errNilStat   = errors.New("StoringStatIn(nil), expected a *Stat")
	errNilAbsent = errors.New("StoringAbsenceIn(nil), expected a *bool")
	errNilWatch  = errors.New("Watched(nil), expected a place for the *Watch")
)

// readConfig is what the options of the reading verbs set.
type readConfig struct {
	stat   *Stat
	watch  **Watch
	absent *bool

	decompressed bool

	parents   bool // of a znode that is not there
	parentsAs CreateMode

	retry retry.Policy
}

// GetOption is an option of [Framework.Get].
type GetOption interface{ applyGet(*readConfig) error }

// ExistsOption is an option of [Framework.Exists].
type ExistsOption interface{ applyExists(*readConfig) error }

// ChildrenOption is an option of [Framework.Children].
type ChildrenOption interface{ applyChildren(*readConfig) error }

func (o StatOption) applyGet(c *readConfig) error      { return o.store(&c.stat) }
func (o StatOption) applyChildren(c *readConfig) error { return o.store(&c.stat) }

// AbsentOption is returned by [StoringAbsenceIn].
type AbsentOption struct{ absent *bool }

// StoringAbsenceIn makes it an answer, and not an error, that there is no znode: it
// is stored whether there was none. Then there is no data, and [Watched] and
// [StoringStatIn] store nothing. In a [Framework.Pipeline] the other reads have
// their results nevertheless.
func StoringAbsenceIn(absent *bool) AbsentOption { return AbsentOption{absent} }

func (o AbsentOption) applyGet(c *readConfig) error {
	if o.absent == nil {
		return errNilAbsent
	}
	c.absent = o.absent
	return nil
}

// Get returns the data of a znode, nil when it has none. It blocks until the
// reply or the end of the context, and retries as the policy says.
func (f *Framework) Get(ctx context.Context, path string, opts ...GetOption) ([]byte, error) {
	var data []byte
	err := f.Pipeline(ctx, ReadData(path, &data, opts...))
	return data, err
}

//nolint:unparam // other options of Exists can fail
func (o ParentsOption) applyExists(c *readConfig) error {
	c.parents, c.parentsAs = true, o.mode
	return nil
}

// Exists returns the Stat of a znode, nil when there is none. With
// [CreatingParentsIfNeeded] the parents of a znode that is not there exist when it
// returns nil.
func (f *Framework) Exists(ctx context.Context, path string, opts ...ExistsOption) (*Stat, error) {
	var cfg readConfig
	if err := applyAll(opts, func(o ExistsOption) error { return o.applyExists(&cfg) }); err != nil {
		return nil, failed(opExists, path, err)
	}
	if cfg.parents {
		return f.existsWithParents(ctx, path, cfg)
	}
	var stat *Stat
	err := f.Pipeline(ctx, readExists(path, &stat, cfg))
	return stat, err
}

// existsWithParents reads first: a znode that is there needs no parents.
func (f *Framework) existsWithParents(ctx context.Context, path string, cfg readConfig) (*Stat, error) {
	full, err := f.writable(path)
	if err == nil && ctx == nil {
		err = errNilContext
	}
	if err != nil {
		return nil, failed(opExists, path, err)
	}
	ctx, end := f.withBudget(ctx, cfg.retry)
	defer end()
	cfg.retry = nil
	var stat *Stat
	var watch *Watch
	into := cfg.watch
	if into != nil {
		cfg.watch = &watch
	}
	if err := f.Pipeline(ctx, readExists(path, &stat, cfg)); err != nil {
		return nil, err
	}
	if parent, _ := SplitPath(full); stat == nil && parent != "/" {
		p := parents{f: f, mode: cfg.parentsAs}
		err := f.retry(ctx, nil, func(ctx context.Context) error { return p.create(ctx, parent) })
		if err != nil {
			watch.Cancel()
			return nil, failed(opExists, path, err)
		}
	}
	if into != nil {
		*into = watch
	}
	return stat, nil
}

// Children returns the names of a znode's children, in no particular order. They share
// their memory: of a long list, what is kept for long is better cloned (strings.Clone).
func (f *Framework) Children(ctx context.Context, path string, opts ...ChildrenOption) ([]string, error) {
	var names []string
	err := f.Pipeline(ctx, ReadChildren(path, &names, opts...))
	return names, err
}

// Sync makes the server that this client is connected to catch up with the leader
// before it answers what this client asks next. It does not make a read
// linearizable: a leader without outstanding proposals answers without asking its
// quorum.
func (f *Framework) Sync(ctx context.Context, path string, opts ...CallOption) error {
	cfg, err := newCallConfig(opts)
	if err != nil {
		return failed(opSync, path, err)
	}
	c, err := f.syncCall(path)
	if err != nil {
		return failed(opSync, path, err)
	}
	c.retry = cfg.retry
	return failed(opSync, path, f.send(ctx, true, c))
}

func (f *Framework) syncCall(path string) (*call, error) {
	if err := ValidatePath(path); err != nil {
		return nil, err
	}
	var e jute.Encoder
	e.String(f.root.full(path))
	return &call{operation: opSync, path: path, body: e.Bytes()}, nil
}

// Read is one read of a [Framework.Pipeline].
type Read struct {
	operation
	path  string
	build func(*Framework) (*call, error)
}

// ReadData is [Framework.Get] as part of a pipeline; the data goes to into, which
// may be nil.
func ReadData(path string, into *[]byte, opts ...GetOption) Read {
	return Read{opGet, path, func(f *Framework) (*call, error) {
		var cfg readConfig
		if err := applyAll(opts, func(o GetOption) error { return o.applyGet(&cfg) }); err != nil {
			return nil, err
		}
		c, err := f.readCall(opGet, path, &cfg, watchData)
		if err != nil {
			return nil, err
		}
		c.decode = func(d *jute.Decoder) {
			data := d.Buffer()
			var stat Stat
			decodeStat(d, &stat)
			if d.Err() != nil {
				return
			}
			if into != nil {
				*into = data
			}
			if cfg.absent != nil {
				*cfg.absent = false
			}
			cfg.storeStat(stat)
		}
		if cfg.absent != nil {
			c.absent = func() { *cfg.absent = true }
		}
		if into != nil && cfg.decompressed {
			c.after = func() (err error) {
				*into, err = f.decompress(path, *into)
				return err
			}
		}
		return c, nil
	}}
}

// ReadChildren is [Framework.Children] as part of a pipeline.
func ReadChildren(path string, into *[]string, opts ...ChildrenOption) Read {
	return Read{opChildren, path, func(f *Framework) (*call, error) {
		var cfg readConfig
		if err := applyAll(opts, func(o ChildrenOption) error { return o.applyChildren(&cfg) }); err != nil {
			return nil, err
		}
		c, err := f.readCall(opChildren, path, &cfg, watchChildren)
		if err != nil {
			return nil, err
		}
		c.decode = func(d *jute.Decoder) {
			names := d.Strings()
			var stat Stat
			decodeStat(d, &stat)
			if d.Err() != nil {
				return
			}
			if into != nil {
				*into = names
			}
			cfg.storeStat(stat)
		}
		return c, nil
	}}
}

func readExists(path string, into **Stat, cfg readConfig) Read {
	return Read{opExists, path, func(f *Framework) (*call, error) {
		c, err := f.readCall(opExists, path, &cfg, watchData)
		if err != nil {
			return nil, err
		}
		c.absent = func() { *into = nil }
		c.decode = func(d *jute.Decoder) {
			var stat Stat
			decodeStat(d, &stat)
			*into = &stat
		}
		return c, nil
	}}
}

func (c *readConfig) storeStat(stat Stat) {
	if c.stat != nil {
		*c.stat = stat
	}
}

// Pipeline sends several reads in one write, so that together they take one round
// trip. The server answers them in this order, and no write of another client need
// be between them, but may be. The error is that of the first read that failed,
// and tells which one it was; what others have read is then where it was to go, but
// watches set by them are taken back.
func (f *Framework) Pipeline(ctx context.Context, reads ...Read) error {
	calls := make([]*call, len(reads))
	for i, r := range reads {
		if r.build == nil {
			return &OpError{opPipeline.name, "", fmt.Errorf("%w: the zero Read, expected one of ReadData, ReadChildren or WatchData", ErrInvalidOption)}
		}
		c, err := r.build(f)
		if err != nil {
			return failed(r.operation, r.path, err)
		}
		if c.retry != nil && len(reads) > 1 {
			return failed(r.operation, r.path, fmt.Errorf("%w: %w", ErrInvalidOption, errRetryInPipeline))
		}
		calls[i] = c
	}
	if len(calls) == 0 {
		return nil
	}
	err := f.send(ctx, true, calls...)
	for _, c := range calls {
		if c.deliver != nil {
			c.deliver(err == nil)
		}
	}
	return failed(reads[0].operation, reads[0].path, err)
}

// readCall builds what the three reads have in common: path and watch flag.
func (f *Framework) readCall(op operation, path string, cfg *readConfig, kind watchKind) (*call, error) {
	if err := ValidatePath(path); err != nil {
		return nil, err
	}
	full := f.root.full(path)
	e := jute.NewEncoder(len(full) + 5)
	e.String(full)
	e.Bool(cfg.watch != nil)
	c := &call{operation: op, path: path, body: e.Bytes(), retry: cfg.retry}
	if cfg.watch != nil {
		r := &watchRequest{
			key: watchKey{full, kind}, path: path,
			onAbsent: op == opExists, into: cfg.watch, flag: &c.body[len(c.body)-1],
		}
		c.begin = func() func(conduit.Reply, error) { return f.watches.begin(r) }
		c.deliver = r.deliver
	}
	return c, nil
}
