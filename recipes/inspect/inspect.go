// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// Option is an option of [At] or [Walk].
type Option interface{ apply(*config) error }

type config struct {
	heads     bool
	maxLeases int
}

type optionFunc func(*config) error

func (f optionFunc) apply(c *config) error { return f(c) }

// HeadsOnly leaves out the participants that stand behind the first waiter. The counts are
// complete. It makes a list of many locks cheap: a mutex costs three reads however many wait.
func HeadsOnly() Option {
	return optionFunc(func(c *config) error {
		c.heads = true
		return nil
	})
}

// WithMaxLeases says the maximum of the semaphores, which their znodes do not show.
func WithMaxLeases(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 1 {
			return fmt.Errorf("WithMaxLeases(%d), expected 1 or more", n)
		}
		c.maxLeases = n
		return nil
	})
}

func newConfig(ctx context.Context, client *framework.Framework, path string, opts []Option) (config, error) {
	var c config
	switch {
	case ctx == nil:
		return c, errors.New("context nil, expected one such as context.Background()")
	case client == nil:
		return c, errors.New("client nil, expected a started framework client")
	}
	if err := framework.ValidatePath(path); err != nil {
		return c, err
	}
	for _, o := range opts {
		if o == nil {
			return c, errors.New("a nil option")
		}
		if err := o.apply(&c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// At returns the recipes at a path: usually one, and none where no name is known. It takes two
// round trips, three for a semaphore, and one more for every thousand participants. The error
// matches [framework.ErrNoNode] when there is no znode at the path.
func At(ctx context.Context, client *framework.Framework, path string, opts ...Option) ([]Recipe, error) {
	cfg, err := newConfig(ctx, client, path, opts)
	if err != nil {
		return nil, fmt.Errorf("inspect: %s: %w", path, err)
	}
	names, err := client.Children(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("inspect: %s: %w", path, err)
	}
	t := tree{path: classify(names)}
	var beside []string
	for _, name := range []string{leasesFolder, turnsFolder, membersFolder} {
		if slices.Contains(t[path].others, name) {
			beside = append(beside, framework.JoinPath(path, name))
		}
	}
	if len(t[path].permits) > 0 && path != "/" {
		beside = append(beside, path+kazooTurns)
	}
	lists, err := readLists(ctx, client, beside)
	if err != nil {
		return nil, fmt.Errorf("inspect: %s: %w", path, err)
	}
	for _, l := range lists {
		if l.err == nil {
			t[l.path] = classify(l.names)
		}
	}
	recipes, err := finish(ctx, client, t.draftsAt(path, cfg.heads, cfg.maxLeases))
	if err != nil {
		return nil, fmt.Errorf("inspect: %s: %w", path, err)
	}
	return recipes, nil
}

// Survey is what [Walk] has found.
type Survey struct {
	// Recipes are in the order of their paths.
	Recipes []Recipe `json:"recipes"`

	// Unreadable are the paths that this client may not list.
	Unreadable []string `json:"unreadable,omitempty"`

	// Nodes counts the znodes whose names were seen.
	Nodes int `json:"nodes"`
}

// Walk returns the recipes at a path and below it. It lists every folder, level by level, in
// pipelines, and then reads the participants. The server's own nodes below /zookeeper are left
// out, unless the path is there. The error matches [framework.ErrNoNode] when there is no
// znode at the path; znodes that go during the walk are left out.
func Walk(ctx context.Context, client *framework.Framework, path string, opts ...Option) (Survey, error) {
	var s Survey
	cfg, err := newConfig(ctx, client, path, opts)
	if err != nil {
		return s, fmt.Errorf("inspect: %s: %w", path, err)
	}
	t := make(tree)
	var paths []string
	for level := []string{path}; len(level) > 0; {
		lists, err := readLists(ctx, client, level)
		if err != nil {
			return s, fmt.Errorf("inspect: %s: %w", path, err)
		}
		level = nil
		for _, l := range lists {
			switch {
			case errors.Is(l.err, framework.ErrNoAuth):
				s.Unreadable = append(s.Unreadable, l.path)
			case l.err != nil && l.path == path:
				return s, fmt.Errorf("inspect: %w", l.err)
			case l.err == nil:
				in := classify(l.names)
				t[l.path] = in
				paths = append(paths, l.path)
				s.Nodes += len(l.names)
				for _, name := range slices.Concat(in.others, in.members, in.permits) {
					if child := framework.JoinPath(l.path, name); client.FullPath(child) != serverNodes {
						level = append(level, child)
					}
				}
			}
		}
	}
	slices.Sort(paths)
	var drafts []*draft
	for _, p := range paths {
		drafts = append(drafts, t.draftsAt(p, cfg.heads, cfg.maxLeases)...)
	}
	s.Recipes, err = finish(ctx, client, drafts)
	if err != nil {
		return s, fmt.Errorf("inspect: %s: %w", path, err)
	}
	slices.Sort(s.Unreadable)
	return s, nil
}

// serverNodes is where the servers keep their own znodes.
const serverNodes = "/zookeeper"

// finish reads the nodes of the drafts.
func finish(ctx context.Context, client *framework.Framework, drafts []*draft) ([]Recipe, error) {
	var reads []framework.Read
	var nodes []*node
	for _, d := range drafts {
		for _, n := range append(slices.Clip(d.nodes), d.folder) {
			if n != nil && n.read {
				nodes = append(nodes, n)
				reads = append(reads, framework.ReadData(n.path, &n.data, framework.StoringStatIn(&n.stat)).StoringErrorIn(&n.err))
			}
		}
	}
	if err := readAll(ctx, client, reads); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.err != nil && !errors.Is(n.err, framework.ErrNoNode) && !errors.Is(n.err, framework.ErrNoAuth) {
			return nil, n.err
		}
	}
	var recipes []Recipe
	for _, d := range drafts {
		if r, ok := d.done(); ok {
			recipes = append(recipes, r)
		}
	}
	slices.SortStableFunc(recipes, func(a, b Recipe) int { return strings.Compare(a.Path, b.Path) })
	return recipes, nil
}

// list is the names in a folder.
type list struct {
	path  string
	names []string
	err   error
}

// readLists lists many folders. What the server says about one of them is in its err.
func readLists(ctx context.Context, client *framework.Framework, paths []string) ([]list, error) {
	lists := make([]list, len(paths))
	reads := make([]framework.Read, len(paths))
	for i, path := range paths {
		lists[i].path = path
		reads[i] = framework.ReadChildren(path, &lists[i].names).StoringErrorIn(&lists[i].err)
	}
	return lists, readAll(ctx, client, reads)
}

const (
	readBatch = 256 // reads that leave in one write
	readAhead = 4   // writes that are under way
)

// readAll makes the reads, several batches at a time. The first error ends it.
func readAll(ctx context.Context, client *framework.Framework, reads []framework.Read) error {
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
			if err := attempt.Guard(client, func() error { return client.Pipeline(ctx, batch...) }); err != nil {
				stop(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
