// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework/internal/watching"
	"github.com/gocurator/curator/framework/internal/wire"
)

// The options that each read takes.
const (
	ofGet      = ofEveryCall | storingStatIn | storingAbsenceIn | watched | decompressed | undecompressed
	ofExists   = ofReadStat | creatingParents | creatingParentContainers
	ofReadStat = ofEveryCall | watched
	ofChildren = ofEveryCall | storingStatIn | watched | withReplyLimit
	ofGetACL   = ofEveryCall | storingStatIn
	ofFollow   = decompressed | undecompressed
)

// newReadConfig returns what the options of a read set. It refuses options that the call does not accept.
func newReadConfig(opts []ReadOption, takes optionSet, call string) (*callConfig, error) {
	cfg := new(callConfig)
	return cfg, configure(cfg, opts, takes, call)
}

type absentOption struct {
	anyCall
	absent *bool
}

// StoringAbsenceIn treats a missing znode as an answer rather than an error, and sets
// *absent to whether it was missing. For a missing znode the data is nil, and [Watched] and
// [StoringStatIn] store nothing. The other reads of a [Framework.Pipeline] keep their
// results.
func StoringAbsenceIn(absent *bool) ReadOption { return absentOption{absent: absent} }

func (o absentOption) set(c *callConfig) error {
	return put(c, storingAbsenceIn, &c.absent, o.absent, "a *bool")
}

// WithReplyLimit accepts a list of up to n bytes from this read, instead of the client's limit,
// see [WithMaxReplySize]. A higher limit is for the occasional list of very many children, and the
// list takes memory only as it comes. A lower one is for a program that must not grow: a longer
// list is skipped and takes no memory, and the read fails with [ErrTooLarge]. A name takes 4 bytes
// and its length, the rest of a reply 88 bytes.
func WithReplyLimit(n int) ReadOption {
	return value{to: func(c *callConfig) error {
		if n < 1 {
			return fmt.Errorf("reply limit %d, expected 1 byte or more", n)
		}
		c.given |= withReplyLimit
		c.maxReply = n
		return nil
	}}
}

// Get returns the data of a znode, or nil if it has none; the caller may keep and change it.
// The error matches [ErrNoNode] if there is no znode. Get blocks until the reply or the end of
// the context, and retries as the policy says. Goroutines that call Get at the same time
// share requests, see [Framework.Pipeline].
func (f *Framework) Get(ctx context.Context, path string, opts ...ReadOption) ([]byte, error) {
	var data []byte
	err := f.Pipeline(ctx, ReadData(path, &data, opts...))
	return data, err
}

// Exists returns the Stat of a znode, or nil if it is missing. With
// [CreatingParentsIfNeeded] the parents of a missing znode exist when Exists returns.
func (f *Framework) Exists(ctx context.Context, path string, opts ...ReadOption) (*Stat, error) {
	cfg, err := newReadConfig(opts, ofExists, "Exists")
	if err != nil {
		return nil, failed(opExists, path, err)
	}
	if cfg.has(creatingParents | creatingParentContainers) {
		return f.existsWithParents(ctx, path, *cfg)
	}
	var stat *Stat
	err = f.Pipeline(ctx, readExists(path, &stat, *cfg))
	return stat, err
}

// existsWithParents reads first: an existing znode needs no parents.
func (f *Framework) existsWithParents(ctx context.Context, path string, cfg callConfig) (stat *Stat, err error) {
	into, watch := cfg.watch, (*Watch)(nil)
	if into != nil {
		cfg.watch = &watch // not into before the parents are there
	}
	full, err := f.root.writable(path)
	var read *call
	if err == nil {
		read, err = readExists(path, &stat, cfg).build(f)
	}
	parent, _ := SplitPath(full)
	p := parents{f: f, mode: cfg.parentsAs()}
	attempt := func(ctx context.Context) error {
		if err := f.exchange(ctx, read); err != nil || stat != nil || parent == "/" {
			return err
		}
		return p.create(ctx, parent)
	}
	if err := f.run(ctx, opExists, path, plan{common: cfg.common, attempt: attempt}, err); err != nil {
		watch.Cancel()
		return nil, err
	}
	// Only now: a failed call must leave the caller's watch as it was.
	if into != nil {
		*into = watch
	}
	return stat, nil
}

// Children returns the names of a znode's children, in no particular order. The error matches
// [ErrNoNode] if there is no znode. The names share memory: use strings.Clone to keep a few
// names of a long list.
func (f *Framework) Children(ctx context.Context, path string, opts ...ReadOption) ([]string, error) {
	var names []string
	err := f.Pipeline(ctx, ReadChildren(path, &names, opts...))
	return names, err
}

// Sync makes the client's server catch up with the leader before it answers the client's
// next request. It does not make a read linearizable: a leader without outstanding
// proposals answers without asking its quorum.
func (f *Framework) Sync(ctx context.Context, path string, opts ...CallOption) error {
	return f.ask(ctx, opSync, path, opts, nil)
}

// Read is one read of a [Framework.Pipeline].
type Read struct {
	operation
	path  string
	build func(*Framework) (*call, error)

	storesError bool // in *errInto
	errInto     *error
}

// ReadData is [Framework.Get] as part of a pipeline. It stores the data in *into; into may be
// nil.
func ReadData(path string, into *[]byte, opts ...ReadOption) Read {
	return Read{operation: opGet, path: path, build: func(f *Framework) (*call, error) {
		cfg, err := newReadConfig(opts, ofGet, "Get")
		if err != nil {
			return nil, err
		}
		c, err := f.readCall(opGet, path, cfg, watching.Data)
		if err != nil {
			return nil, err
		}
		c.decode = func(d wire.Decoder) (err error) {
			data := d.Buffer()
			stat := d.Stat()
			// Nothing is stored from a malformed reply.
			if d.Err() != nil {
				return d.Err()
			}
			if cfg.absent != nil {
				*cfg.absent = false
			}
			cfg.storeStat(&d, stat)
			if cfg.given.chooses(decompressed, undecompressed, f.compressed) && into != nil {
				data, err = f.cfg.decompress(path, data)
			}
			if into != nil {
				*into = data
			}
			return err
		}
		if cfg.absent != nil {
			var before Stat
			if cfg.stat != nil {
				before = *cfg.stat
			}
			c.refused = answeringNoNode(func() {
				*cfg.absent = true
				// An earlier try of a pipeline may have found the znode.
				if into != nil {
					*into = nil
				}
				if cfg.stat != nil {
					*cfg.stat = before
				}
			})
		}
		return c, nil
	}}
}

// ReadChildren is [Framework.Children] as part of a pipeline.
func ReadChildren(path string, into *[]string, opts ...ReadOption) Read {
	return Read{operation: opChildren, path: path, build: func(f *Framework) (*call, error) {
		cfg, err := newReadConfig(opts, ofChildren, "Children")
		if err != nil {
			return nil, err
		}
		c, err := f.readCall(opChildren, path, cfg, watching.Children)
		if err != nil {
			return nil, err
		}
		c.maxReply = cfg.maxReply
		c.decode = func(d wire.Decoder) error {
			names := d.Strings()
			stat := d.Stat()
			if d.Err() == nil && into != nil {
				*into = names
			}
			cfg.storeStat(&d, stat)
			return d.Err()
		}
		return c, nil
	}}
}

// listCall lists the children of a znode, of which a missing one has none.
func (f *Framework) listCall(path string, into *[]string) (*call, error) {
	list, err := ReadChildren(path, into).build(f)
	if err == nil {
		list.refused = answeringNoNode(func() { *into = nil })
	}
	return list, err
}

// readOnce makes a read within a try of another call.
func (f *Framework) readOnce(ctx context.Context, r Read) error {
	c, err := r.build(f)
	if err == nil {
		err = f.exchange(ctx, c)
	}
	return err
}

func readExists(path string, into **Stat, cfg callConfig) Read {
	return Read{operation: opExists, path: path, build: func(f *Framework) (*call, error) {
		c, err := f.readCall(opExists, path, &cfg, watching.Data)
		if err != nil {
			return nil, err
		}
		c.refused = answeringNoNode(func() { *into = nil })
		c.decode = func(d wire.Decoder) error {
			if stat := d.Stat(); d.Err() == nil {
				*into = &stat
			}
			return d.Err()
		}
		return c, nil
	}}
}

// Pipeline sends several reads in one write, so that together they take one round trip. The server answers
// them in order. Writes of other clients may come between them. If a read fails,
// Pipeline returns the error of the first that failed, which names it. The other reads have stored their
// results then, but their watches are cancelled.
//
// More than 1024 reads leave in several writes if none of them sets a watch. Each write leaves after the
// replies to the write before, so that other requests of the client get in between. If a read fails, the
// reads of later writes are not made.
//
// Reads of data, and of Stats by ReadStat, may share a request, even with reads of other goroutines. They
// do so if they set no watch, recent data was short, and the server is known to be ZooKeeper 3.6 or later.
// The server then answers them in less time. If the server cannot answer them together, they are sent again
// one by one. That happens if the data is too long, or if the client may not read the data of a ReadStat.
// Then all reads of the Pipeline are made again, so that they keep their order. A Pipeline that also sets a watch
// does not do that: its reads may show changes that later ones do not show. When there are many such reads,
// the client asks for the server's version once per connection, with the four-letter word srvr on a
// separate connection. No read waits for the answer.
func (f *Framework) Pipeline(ctx context.Context, reads ...Read) error {
	if len(reads) == 0 {
		return nil
	}
	op := reads[0].operation
	// Several have no request of their own to be measured under.
	if len(reads) > 1 {
		op = opPipeline
	}
	p := plan{calls: make([]*call, len(reads))}
	for i, r := range reads {
		c, err := r.call(f, len(reads) > 1)
		if err != nil {
			return failed(r.operation, r.path, err)
		}
		p.calls[i], p.common = c, *c.settings
	}
	if len(reads) > maxReadsAtOnce && !slices.ContainsFunc(p.calls, func(c *call) bool { return c.follower != nil }) {
		parts := slices.Collect(slices.Chunk(p.calls, maxReadsAtOnce))
		p.attempt = func(ctx context.Context) error { return f.exchangeParts(ctx, &parts) }
	}
	return f.run(ctx, op, reads[0].path, p, nil)
}

// exchangeParts sends the parts one after the other. It removes the reads that have succeeded from the
// list, so the next try begins where this one has ended.
func (r *requests) exchangeParts(ctx context.Context, parts *[][]*call) error {
	for len(*parts) > 0 {
		if err := r.exchange(ctx, (*parts)[0]...); err != nil {
			return err
		}
		*parts = (*parts)[1:]
	}
	return nil
}

// call builds the request of a read, which may be one of several.
func (r Read) call(f *Framework, several bool) (*call, error) {
	if r.storesError && (r.build == nil || r.errInto == nil) {
		err := fmt.Errorf("%w: StoringErrorIn of the zero Read or into nil, expected a read and a *error", ErrInvalidOption)
		if r.build == nil {
			err = &OpError{Err: err} // it has no name
		}
		return nil, err
	}
	if r.build == nil {
		return nil, &OpError{opPipeline.name, "", fmt.Errorf("%w: the zero Read, expected one of ReadData, ReadStat or ReadChildren", ErrInvalidOption)}
	}
	c, err := r.build(f)
	if err != nil {
		return nil, err
	}
	// They leave in one write, so none of them can have a policy or session of its own.
	if several && c.settings.has(ofEveryCall) {
		return nil, fmt.Errorf("%w: %v in a pipeline of several reads, expected Framework.Retry around it", ErrInvalidOption, c.settings.given&ofEveryCall)
	}
	c.errInto = r.errInto
	return c, nil
}

// readCall builds what the three reads have in common: path and watch flag.
func (f *Framework) readCall(op operation, path string, cfg *callConfig, kind watching.Kind) (*call, error) {
	if err := ValidatePath(path); err != nil {
		return nil, err
	}
	full := f.root.full(path)
	e := wire.NewEncoder(len(full) + 5)
	e.String(full)
	e.Bool(cfg.watch != nil)
	c := &call{operation: op, path: path, body: e.Bytes(), settings: &cfg.common}
	// The flag in the body is decided at each try: a persistent watch may serve the read.
	if cfg.watch != nil {
		c.follower = &watchRequest{
			f:       f,
			setting: watching.Setting{Key: watching.Key{Full: full, Kind: kind}, Path: path, OnAbsent: op == opExists},
			into:    cfg.watch, flag: &c.body[len(c.body)-1],
		}
	}
	return c, nil
}

// ReadStat is [Framework.Exists] as part of a pipeline: *into is nil if there is no znode.
// CreatingParentsIfNeeded is refused.
func ReadStat(path string, into **Stat, opts ...ReadOption) Read {
	return Read{operation: opExists, path: path, build: func(f *Framework) (*call, error) {
		cfg, err := newReadConfig(opts, ofReadStat, "ReadStat")
		if err != nil {
			return nil, err
		}
		if into == nil {
			return nil, fmt.Errorf("%w: ReadStat into nil, expected a place for the *Stat", ErrInvalidOption)
		}
		return readExists(path, into, *cfg).build(f)
	}}
}

// StoringErrorIn makes an error about the znode, such as [ErrNoNode], [ErrNoAuth] or [ErrCompression], the
// result of this read alone. The error is stored in *into, nil for success. The other reads of the pipeline
// keep their results. [Retryable] errors still fail the pipeline, and so does [ErrTooLarge], unless the read
// has a limit of its own, see [WithReplyLimit].
//
//nolint:gocritic // the place for an error is a pointer to an interface
func (r Read) StoringErrorIn(into *error) Read {
	r.storesError, r.errInto = true, into
	return r
}

// maxReadsAtOnce is how many reads leave in one write. More are made in parts, so that a large
// folder does not hold up the requests of other goroutines.
const maxReadsAtOnce = 1024

// Child is a znode in a folder, as [Framework.ChildrenData] reads it.
type Child struct {
	Name string
	Data []byte // which the caller may keep and change
	Stat Stat
}

// ChildrenData returns the children of a znode with their data and Stats. It takes two round trips: one for
// the names, and one for each 1024 children. Children that are deleted in between are left out. The error matches
// [ErrNoNode] if there is no znode, and is the error of a child that cannot be read.
//
// A function choose, if it is not nil, receives the names in their order and returns those that are read, in the order of
// the result. Without it all children are read, in the order of their names. The children may be read at different times:
// a child may be newer than another one.
func (f *Framework) ChildrenData(ctx context.Context, path string, choose func(names []string) []string) ([]Child, error) {
	names, err := f.Children(ctx, path)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	if choose != nil {
		names = choose(names)
	}
	children := make([]Child, 0, len(names))
	for part := range slices.Chunk(names, maxReadsAtOnce) {
		if children, err = f.appendChildren(ctx, children, path, part); err != nil {
			return nil, err
		}
	}
	return children, nil
}

func (f *Framework) appendChildren(ctx context.Context, children []Child, path string, names []string) ([]Child, error) {
	read := make([]Child, len(names))
	absent := make([]bool, len(names))
	reads := make([]Read, len(names))
	for i, name := range names {
		child := JoinPath(path, name)
		// A name that choose has made up must not lead elsewhere.
		if parent, last := SplitPath(child); parent != path || last != name {
			return nil, failed(opChildren, path, fmt.Errorf("%w: child %q, expected one of the names", ErrInvalidOption, name))
		}
		read[i].Name = name
		reads[i] = ReadData(child, &read[i].Data, StoringStatIn(&read[i].Stat), StoringAbsenceIn(&absent[i]))
	}
	if err := f.Pipeline(ctx, reads...); err != nil {
		return nil, err
	}
	for i, child := range read {
		if !absent[i] {
			children = append(children, child)
		}
	}
	return children, nil
}

// ask makes a request that consists of a path.
func (f *Framework) ask(ctx context.Context, op operation, path string, opts []CallOption, decode func(wire.Decoder) error) error {
	cfg, err := newCommon(opts)
	var calls []*call
	if err == nil {
		calls, err = pathCall(f.root, op, path, decode)
	}
	return f.run(ctx, op, path, plan{common: cfg, calls: calls}, err)
}
