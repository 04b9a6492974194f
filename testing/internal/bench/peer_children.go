// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"

	"github.com/gocurator/curator/recipes/cache"
)

// childrenPerFolder is how many znodes each folder has that the caches of folders leave out.
const childrenPerFolder = 100

// childrenMetrics are what caches of folders are compared by.
var childrenMetrics = []metric{
	cacheMetric("fill_us", func(c *cacheResult) float64 { return c.Fill }),
	cacheMetric("fill_requests", func(c *cacheResult) float64 { return c.FillRequests }),
	cacheMetric("fill_bytes", func(c *cacheResult) float64 { return c.FillBytes }),
	cacheMetric("memory_bytes", func(c *cacheResult) float64 { return c.Memory }),
	cacheMetric("cut_0_right_us", func(c *cacheResult) float64 { return c.Cut0.Right }),
	cacheMetric("cut_0_requests", func(c *cacheResult) float64 { return c.Cut0.Requests }),
	cacheMetric("below_bytes_sent", func(c *cacheResult) float64 { return c.Below.Sent }),
	cacheMetric("below_bytes_received", func(c *cacheResult) float64 { return c.Below.Received }),
}

// runSelfChildren measures a CuratorCache of one level.
func runSelfChildren(ctx context.Context, at servers, l load, _ string) (result, error) {
	return runChildren(ctx, at, l, 1, func(connect, root, _ string) (treeFollower, error) {
		return newSelfFollower(ctx, connect, root, cache.WithMaxDepth(1))
	})
}

//go:embed external/BenchChildren.java
var javaChildrenSource []byte

// runJavaChildren measures Curator's PathChildrenCache, in a process of its own.
func runJavaChildren(ctx context.Context, at servers, l load, _ string) (result, error) {
	return runChildren(ctx, at, l, 0, func(connect, root, warm string) (treeFollower, error) {
		return startFollower(ctx, javaChildrenSource, "BenchChildren.java", []string{connect, root, warm},
			"java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", classPath())
	})
}

// runChildren runs a follower of the folders of a tree, and of as many znodes above, through the
// first fill, a cut during which nothing changes, and a change of each znode below the folders.
func runChildren(ctx context.Context, at servers, l load, above int, follow followFunc) (r result, err error) {
	c, open, err := newCaching(ctx, at, l, childrenPerFolder, &r.Cache, follow)
	defer func() { err = errors.Join(err, open.close()) }()
	if err != nil {
		return r, err
	}
	c.kept = len(c.tree.paths) - len(c.tree.leaves) - 1 + above
	if err := c.fill(ctx, &r); err != nil {
		return r, err
	}
	// A cache as a whole: the peers keep one znode more or less.
	r.Cache.FillRequests *= float64(c.kept)
	r.Cache.FillBytes *= float64(c.kept)
	r.Cache.Memory *= float64(c.kept)
	if r.Cache.Cut0, err = c.cut(ctx, 0); err != nil {
		return r, err
	}
	r.Cache.Below, err = c.changeBelow(ctx)
	return r, err
}

// belowResult is what came of changes of znodes that a cache does not keep.
type belowResult struct {
	// Bytes of the follower, pings included.
	Sent     float64 `json:"bytes_sent"`
	Received float64 `json:"bytes_received"`
}

// changeBelow changes each leaf once.
func (c *caching) changeBelow(ctx context.Context) (r belowResult, err error) {
	if _, _, err := c.awaitQuiet(ctx); err != nil {
		return r, err
	}
	sent, received := c.way.there.Load(), c.way.back.Load()
	if err := c.tree.change(ctx, c.writers[0], len(c.tree.leaves)); err != nil {
		return r, err
	}
	if _, _, err := c.awaitQuiet(ctx); err != nil {
		return r, err
	}
	return belowResult{float64(c.way.there.Load() - sent), float64(c.way.back.Load() - received)}, nil
}
