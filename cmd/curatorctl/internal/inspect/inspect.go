// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
)

// Option is an option of [At] or [Walk].
type Option interface{ apply(*config) error }

type config struct {
	heads     bool
	all       bool // with heads: read all, to find those that take part
	maxLeases int
	room      *room // nil without WithMemoryLimit

	longerThan     time.Duration // of Explain and Deadlocks; 0 for their default
	deadlocksBelow string        // of Explain; "" for none
	looksTwice     bool          // of Explain
}

func (c config) ofAll() config {
	c.all = true
	return c
}

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// HeadsOnly leaves out the participants behind the first waiter. The counts are complete. It makes a
// list of many locks cheap: a mutex costs three reads however many wait.
func HeadsOnly() Option {
	return optionFunc(options.Plain(func(c *config) { c.heads = true }))
}

// WithMaxLeases says the maximum of the semaphores, which their znodes do not show.
func WithMaxLeases(n int) Option {
	return optionFunc(options.Checked(n >= 1, func(c *config) { c.maxLeases = n }, "WithMaxLeases(%d), expected 1 or more", n))
}

// WithMemoryLimit bounds what At or Walk reads, to about so many bytes, whatever is in ZooKeeper.
// What does not fit is left out: folders, and then the [Survey] is Partial, and participants, which
// the counts still have. Data of more than a kilobyte is not read, so its participant has no
// Identity. The limit costs one more request for each participant. A lock with a holder and a waiter takes
// about a kilobyte.
func WithMemoryLimit(n int) Option {
	return optionFunc(options.Checked(n >= 1<<20, func(c *config) { c.room = &room{left: n} },
		"WithMemoryLimit(%d), expected a megabyte (%d bytes) or more", n, 1<<20))
}

func newConfig(path string, opts []Option) (config, error) {
	var c config
	if err := framework.ValidatePath(path); err != nil {
		return c, err
	}
	err := options.Apply(opts, func(o Option) error { return o.apply(&c) })
	return c, err
}

// At returns the recipes at a path: usually one, and none where no name is known. It takes two
// round trips, three for a semaphore, and one more for every thousand participants. The error
// matches [framework.ErrNoNode] when there is no znode at the path.
func At(ctx context.Context, client *framework.Framework, path string, opts ...Option) ([]Recipe, error) {
	cfg, err := newConfig(path, opts)
	if err != nil {
		return nil, at(path, err)
	}
	names, err := client.Children(ctx, path)
	if err != nil {
		return nil, at(path, err)
	}
	t := tree{path: classify(names)}
	var beside []string
	for _, name := range []string{leasesFolder, turnsFolder, membersFolder, jobsFolder} {
		if slices.Contains(t[path].others, name) {
			beside = append(beside, framework.JoinPath(path, name))
		}
	}
	if len(t[path].permits) > 0 && path != "/" {
		beside = append(beside, path+kazooTurns)
	}
	lists, err := cfg.room.readLists(ctx, client, beside)
	if err != nil {
		return nil, at(path, err)
	}
	for _, l := range lists {
		if l.err == nil && !l.isCut {
			t[l.path] = classify(l.names)
		}
	}
	var recipes []Recipe
	if err := cfg.finish(ctx, client, t.draftsAt(path, cfg), &recipes); err != nil {
		return nil, at(path, err)
	}
	return recipes, nil
}

// Survey is the result of [Walk].
type Survey struct {
	// Recipes are in the order of their paths.
	Recipes []Recipe `json:"recipes"`

	// Unreadable are the paths that this client may not list.
	Unreadable []string `json:"unreadable,omitempty"`

	// Nodes counts the znodes whose names were seen.
	Nodes int `json:"nodes"`

	// Partial says that [WithMemoryLimit] has left out folders, with the znodes below them.
	Partial bool `json:"partial,omitempty"`
}

// Walk returns the recipes at a path and below it. It lists every folder, a thousand at a time in
// pipelines, and reads the participants as it goes. The server's own nodes below /zookeeper are left
// out, unless the path is there. The error matches [framework.ErrNoNode] when there is no
// znode at the path; znodes that go during the walk are left out.
func Walk(ctx context.Context, client *framework.Framework, path string, opts ...Option) (Survey, error) {
	cfg, err := newConfig(path, opts)
	if err != nil {
		return Survey{}, at(path, err)
	}
	w := &walk{config: cfg, client: client, root: path, open: make(tree)}
	if err := w.descend(ctx, []string{path}); err != nil {
		return Survey{}, at(path, err)
	}
	slices.SortStableFunc(w.found.Recipes, func(a, b Recipe) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(w.found.Unreadable)
	return w.found, nil
}

// walkBatch is how many folders are read before what is below them, and before the next. What a walk keeps of a
// folder is then its recipe.
const walkBatch = readBatch * readAhead

// walk is a [Walk] that is under way.
type walk struct {
	config
	client *framework.Framework
	root   string
	found  Survey
	open   tree // folders below which not all is read, and parts of recipes there
}

// descend reads folders, what is below them, and the recipes in them.
func (w *walk) descend(ctx context.Context, folders []string) error {
	for part := range slices.Chunk(folders, walkBatch) {
		below, err := w.visit(ctx, part)
		if err != nil {
			return err
		}
		if err := w.descend(ctx, below); err != nil {
			return err
		}
		var drafts []*draft
		for _, path := range part {
			if in, isOpen := w.open[path]; isOpen && !w.isLeftToParent(path, in) {
				drafts = append(drafts, w.close(path)...)
				delete(w.open, path)
			}
		}
		if err := w.finish(ctx, w.client, drafts, &w.found.Recipes); err != nil {
			return err
		}
	}
	return nil
}

// visit reads folders. It returns the folders below.
func (w *walk) visit(ctx context.Context, folders []string) (below []string, err error) {
	lists, err := w.room.readLists(ctx, w.client, folders)
	if err != nil {
		return nil, err
	}
	for _, l := range lists {
		switch {
		case errors.Is(l.err, framework.ErrNoAuth):
			w.found.Unreadable = append(w.found.Unreadable, l.path)
		case errors.Is(l.err, framework.ErrTooLarge):
			w.found.Partial = true
		case l.err != nil && l.path == w.root:
			return nil, l.err
		case l.err == nil:
			w.found.Partial = w.found.Partial || l.isCut
			in := classify(l.names)
			w.found.Nodes += len(l.names)
			w.open[l.path] = in
			for _, name := range in.folders() {
				if child := framework.JoinPath(l.path, name); w.client.FullPath(child) != serverNodes {
					below = append(below, child)
				}
			}
		}
	}
	return below, nil
}

// isLeftToParent reports whether a folder may be part of a recipe at its parent, or beside it, which is read later.
func (w *walk) isLeftToParent(path string, in folder) bool {
	parent, name := framework.SplitPath(path)
	_, isOpen := w.open[parent]
	return isOpen && path != w.root && (isPart(path) || name == jobsFolder || len(in.permits) > 0)
}

// close returns the recipes in a folder below which all is read, and in the folders that were left to it.
func (w *walk) close(path string) []*draft {
	in := w.open[path]
	drafts := w.open.draftsAt(path, w.config)
	for _, name := range in.folders() {
		child := framework.JoinPath(path, name)
		if _, isOpen := w.open[child]; isOpen {
			drafts = append(drafts, w.close(child)...)
		}
	}
	for _, name := range in.folders() {
		delete(w.open, framework.JoinPath(path, name))
	}
	return drafts
}

// serverNodes is where the servers keep their own znodes.
const serverNodes = "/zookeeper"

// finish reads the nodes of the drafts, and puts the recipes into a list.
func (c config) finish(ctx context.Context, client *framework.Framework, drafts []*draft, into *[]Recipe) error {
	if err := c.read(ctx, client, drafts); err != nil {
		return err
	}
	var mixed []*draft
	for _, d := range drafts {
		if d.heads && !d.all && d.isMixed() {
			mixed = append(mixed, d.whole())
			continue
		}
		if r, ok := d.done(); ok {
			*into = append(*into, r)
		}
	}
	if len(mixed) > 0 {
		return c.finish(ctx, client, mixed, into)
	}
	return nil
}

// read reads the nodes of the drafts, as far as they are there and may be read.
func (c config) read(ctx context.Context, client *framework.Framework, drafts []*draft) error {
	var nodes []*node
	for _, d := range drafts {
		for _, n := range append(slices.Clip(d.nodes), d.folder) {
			if n != nil && n.read {
				nodes = append(nodes, n)
			}
		}
	}
	if err := c.room.readNodes(ctx, client, nodes); err != nil {
		return err
	}
	for _, n := range nodes {
		if n.err != nil && !errors.Is(n.err, framework.ErrNoNode) && !errors.Is(n.err, framework.ErrNoAuth) {
			return n.err
		}
	}
	return nil
}

const (
	readBatch = 256 // reads that leave in one write
	readAhead = 4   // writes that are under way
)

// readAll makes the reads, several batches at a time. The first error ends it.
func readAll(ctx context.Context, client *framework.Framework, reads []framework.Read) error {
	caller := ctx
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	slots := make(chan struct{}, readAhead)
	var wg sync.WaitGroup
	for batch := range slices.Chunk(reads, readBatch) {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := client.Pipeline(ctx, batch...); err != nil {
				stop(err)
			}
		})
	}
	wg.Wait()
	if caller.Err() != nil {
		return interrupted(caller) // its cause may be the answer to another call
	}
	return context.Cause(ctx)
}
