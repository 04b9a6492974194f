// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
)

// The tree that caches follow.
const (
	nodesPerFolder = 1000
	nodeBytes      = 100
)

// manyWriters is how many writers there are besides one alone, and someChanges how many changes
// there are during a cut besides none and one of each node.
const (
	manyWriters = 8
	someChanges = 100
)

// cacheResult is what came of a follower of a tree. Memory is in bytes a node, times are in
// microseconds, and requests are those that the servers got.
type cacheResult struct {
	Fill         float64 `json:"fill_us,omitempty"`
	FillRequests float64 `json:"fill_requests_per_node,omitempty"`
	FillBytes    float64 `json:"fill_bytes_per_node,omitempty"` // on the wire
	Memory       float64 `json:"memory_bytes_per_node,omitempty"`

	// By the number of writers.
	One  changeResult `json:"one_writer,omitzero"`
	Many changeResult `json:"eight_writers,omitzero"`

	// By the number of changes while the connection was cut.
	Cut0    cutResult `json:"cut_0,omitzero"`
	Cut100  cutResult `json:"cut_100,omitzero"`
	CutEach cutResult `json:"cut_each,omitzero"`

	// Of a cache of folders: the znodes in them, which it does not keep.
	Below belowResult `json:"below,omitzero"`
}

// changeResult is what came of changes that were told as they were made.
type changeResult struct {
	Events float64 `json:"events_per_s"`
	Lag50  float64 `json:"lag_p50_us"` // from before the write to the event
	Lag99  float64 `json:"lag_p99_us"`
}

// cutResult is what came of a lost connection.
type cutResult struct {
	Right    float64 `json:"right_us"` // from the moment at which the way is free
	Requests float64 `json:"requests"`
	Other99  float64 `json:"other_p99_us,omitempty"` // other requests of the client meanwhile
	Missing  int     `json:"missing,omitempty"`      // changes that were never told; Right is 0 then
}

// filled is what a follower says of its first picture.
type filled struct {
	Seconds float64 `json:"seconds"`
	Nodes   int     `json:"nodes"`
	Memory  float64 `json:"memory"` // bytes of it all
}

// noted is what a follower says of changes.
type noted struct {
	Events int     `json:"events"`
	P50    float64 `json:"p50_us"`
	P99    float64 `json:"p99_us"`
}

// treeFollower has a picture of a tree.
type treeFollower interface {
	// fill connects, and blocks until the picture is full.
	fill(ctx context.Context) (filled, error)

	// watch forgets what was noted.
	watch(ctx context.Context) error

	// noted blocks until so many changes were noted. One that is not ours gives up after a while.
	noted(ctx context.Context, atLeast int) (noted, error)

	// probe begins other requests of the client, one after the other, and probed ends them.
	probe(ctx context.Context) error
	probed(ctx context.Context) (noted, error)

	close() error
}

// cacheMetrics are what caches are compared by.
var cacheMetrics = []metric{
	cacheMetric("fill_us", func(c *cacheResult) float64 { return c.Fill }),
	cacheMetric("fill_requests_per_node", func(c *cacheResult) float64 { return c.FillRequests }),
	cacheMetric("fill_bytes_per_node", func(c *cacheResult) float64 { return c.FillBytes }),
	cacheMetric("memory_bytes_per_node", func(c *cacheResult) float64 { return c.Memory }),
	{"one_writer_events_per_s", false, func(r *result) float64 { return r.Cache.One.Events }},
	cacheMetric("one_writer_lag_p50_us", func(c *cacheResult) float64 { return c.One.Lag50 }),
	cacheMetric("one_writer_lag_p99_us", func(c *cacheResult) float64 { return c.One.Lag99 }),
	{"eight_writers_events_per_s", false, func(r *result) float64 { return r.Cache.Many.Events }},
	cacheMetric("eight_writers_lag_p50_us", func(c *cacheResult) float64 { return c.Many.Lag50 }),
	cacheMetric("eight_writers_lag_p99_us", func(c *cacheResult) float64 { return c.Many.Lag99 }),
	cacheMetric("cut_0_right_us", func(c *cacheResult) float64 { return c.Cut0.Right }),
	cacheMetric("cut_0_requests", func(c *cacheResult) float64 { return c.Cut0.Requests }),
	cacheMetric("cut_100_right_us", func(c *cacheResult) float64 { return c.Cut100.Right }),
	cacheMetric("cut_100_requests", func(c *cacheResult) float64 { return c.Cut100.Requests }),
	cacheMetric("cut_each_right_us", func(c *cacheResult) float64 { return c.CutEach.Right }),
	cacheMetric("cut_each_requests", func(c *cacheResult) float64 { return c.CutEach.Requests }),
	cacheMetric("cut_each_other_p99_us", func(c *cacheResult) float64 { return c.CutEach.Other99 }),
}

func cacheMetric(name string, of func(*cacheResult) float64) metric {
	return metric{name, true, func(r *result) float64 { return of(&r.Cache) }}
}

// caching is one run of a peer.
type caching struct {
	at       servers
	load     load
	tree     *tree
	kept     int // nodes of the tree that the follower keeps
	way      *relay
	writers  []*framework.Framework
	follower treeFollower
	result   *cacheResult
}

// followFunc connects a follower of the tree at root. Warm is a smaller one.
type followFunc func(connect, root, warm string) (treeFollower, error)

// newCaching plants a tree and connects writers and a follower of all of it. The caller closes what
// is open also after an error.
func newCaching(
	ctx context.Context, at servers, l load, perFolder int, into *cacheResult, follow followFunc,
) (c *caching, open closers, err error) {
	t, err := plant(ctx, at, l.Nodes, perFolder)
	if err != nil {
		return nil, nil, err
	}
	c = &caching{at: at, load: l, tree: t, kept: len(t.paths), result: into}
	if c.way, err = newRelay(ctx, at.ensemble.Server(0).Addr()); err != nil {
		return nil, nil, err
	}
	open = append(open, c.way.close)
	for range manyWriters {
		w, err := connectQuietly(ctx, at.zookeeper)
		if err != nil {
			return nil, open, err
		}
		open, c.writers = append(open, w.Close), append(c.writers, w)
	}
	// All go the way that can be cut, as it takes time too.
	if c.follower, err = follow(c.way.addr(), t.root, t.warm); err != nil {
		return nil, open, err
	}
	return c, append(open, func() error { return c.follower.close() }), nil
}

// runCaches runs a follower through all that is measured: the first fill, changes by one writer
// and by several, and cuts during which nothing changes, a little, and everything. A follower
// that fills only is given back after that.
func runCaches(
	ctx context.Context, at servers, l load, fillOnly bool, follow followFunc,
) (r result, err error) {
	c, open, err := newCaching(ctx, at, l, nodesPerFolder, &r.Cache, follow)
	defer func() { err = errors.Join(err, open.close()) }()
	if err != nil {
		return result{}, err
	}
	t := c.tree
	if err := c.fill(ctx, &r); err != nil || fillOnly {
		return r, err
	}
	if r.Cache.One, err = c.change(ctx, 1); err != nil {
		return r, err
	}
	if r.Cache.Many, err = c.change(ctx, manyWriters); err != nil {
		return r, err
	}
	for _, cut := range []struct {
		changes int
		into    *cutResult
	}{{0, &r.Cache.Cut0}, {min(someChanges, len(t.leaves)), &r.Cache.Cut100}, {len(t.leaves), &r.Cache.CutEach}} {
		if *cut.into, err = c.cut(ctx, cut.changes); err != nil {
			return r, fmt.Errorf("cut with %d changes: %w", cut.changes, err)
		}
	}
	return r, nil
}

// fill measures the first picture. The run counts each node as a turn.
func (c *caching) fill(ctx context.Context, r *result) error {
	before, err := c.at.traffic(ctx)
	if err != nil {
		return err
	}
	f, err := c.follower.fill(ctx)
	if err != nil {
		return err
	}
	after, err := c.at.traffic(ctx)
	if err != nil {
		return err
	}
	if f.Nodes != c.kept {
		return fmt.Errorf("%d nodes in the picture, expected %d", f.Nodes, c.kept)
	}
	n := float64(f.Nodes)
	r.All, r.Turns, r.Seconds = f.Nodes, f.Nodes, f.Seconds
	c.result.Fill, c.result.Memory = 1e6*f.Seconds, f.Memory/n
	c.result.FillRequests, c.result.FillBytes = (after.received-before.received)/n, (after.bytes-before.bytes)/n
	return nil
}

// change has writers change nodes one after the other, for as long as the load says.
func (c *caching) change(ctx context.Context, writers int) (changeResult, error) {
	if err := c.follower.watch(ctx); err != nil {
		return changeResult{}, err
	}
	began := time.Now()
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, writers)
	for i, client := range c.writers[:writers] {
		wg.Go(func() {
			for time.Since(began) < c.load.Duration && errs[i] == nil {
				n := int(next.Add(1)) - 1
				errs[i] = client.Set(ctx, c.tree.leaves[n%len(c.tree.leaves)], stamp())
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return changeResult{}, err
	}
	// Several changes of one node may be told as one.
	told, err := c.follower.noted(ctx, min(int(next.Load()), len(c.tree.leaves)))
	return changeResult{Events: float64(told.Events) / time.Since(began).Seconds(), Lag50: told.P50, Lag99: told.P99}, err
}

// cut takes the connection away, makes changes, one of each node, and measures how long the
// follower takes to be told of all of them.
func (c *caching) cut(ctx context.Context, changes int) (r cutResult, err error) {
	if err := c.follower.watch(ctx); err != nil {
		return r, err
	}
	c.way.cut()
	if err := c.tree.change(ctx, c.writers[0], changes); err != nil {
		return r, err
	}
	before, err := c.at.traffic(ctx)
	if err != nil {
		return r, err
	}
	c.way.restore()
	free := time.Now()
	probes := 0
	if changes == len(c.tree.leaves) {
		if err := c.follower.probe(ctx); err != nil {
			return r, err
		}
	}
	told, err := c.follower.noted(ctx, changes)
	if err != nil {
		return r, err
	}
	r.Right = microseconds(time.Since(free))
	if r.Missing = max(changes-told.Events, 0); r.Missing > 0 {
		r.Right = 0
	}
	if changes == len(c.tree.leaves) {
		other, err := c.follower.probed(ctx)
		if err != nil {
			return r, err
		}
		r.Other99, probes = other.P99, other.Events
	}
	quiet, after, err := c.awaitQuiet(ctx)
	if err != nil {
		return r, err
	}
	if changes == 0 { // there is no event to wait for
		r.Right = microseconds(quiet.Sub(free))
	}
	r.Requests = after.received - before.received - float64(probes)
	return r, nil
}

// How the end of a follower's requests is noticed.
const (
	lookEvery = 20 * time.Millisecond
	quietTime = 2 * time.Second // above the pauses between two attempts to connect
	ownNoise  = 2               // requests of one look at a server
)

// awaitQuiet waits until the server gets no more requests, and returns when it got the last.
func (c *caching) awaitQuiet(ctx context.Context) (last time.Time, at traffic, err error) {
	last = time.Now()
	servers := float64(len(c.at.ensemble.Servers()))
	looks := 0.0
	for seen := -1.0; ; looks++ {
		if at, err = c.at.traffic(ctx); err != nil {
			return last, at, err
		}
		if at.received-seen > ownNoise*servers {
			last = time.Now()
		}
		seen = at.received
		if time.Since(last) > quietTime {
			at.received -= looks * servers // each look was one at each
			return last, at, nil
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return last, at, context.Cause(ctx)
		}
	}
}

// wallClock is in nanoseconds. It is the only clock that the programs of other languages share.
func wallClock() int64 {
	return time.Now().UnixNano() //nolint:forbidigo // a lag between two processes
}

// stamp is the data of a node: the time, and then padding.
func stamp() []byte {
	data := make([]byte, 0, nodeBytes)
	data = strconv.AppendInt(data, wallClock(), 10)
	for len(data) < nodeBytes {
		data = append(data, ' ')
	}
	return data
}

// tree is folders with nodes. All peers of a run follow the same one.
type tree struct {
	root   string
	warm   string   // a smaller one, to warm up with
	paths  []string // parents before their children
	leaves []string
}

// plant creates the tree, and one to warm up with, unless they are there.
func plant(ctx context.Context, at servers, nodes, perFolder int) (_ *tree, err error) {
	client, err := connectQuietly(ctx, at.zookeeper)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	small, err := plantOne(ctx, client, fmt.Sprintf("/bench-warm-%d-%d", nodes, perFolder), max(nodes/10, 1), perFolder)
	if err != nil {
		return nil, err
	}
	t, err := plantOne(ctx, client, fmt.Sprintf("/bench-tree-%d-%d", nodes, perFolder), nodes, perFolder)
	if err == nil {
		t.warm = small.root
	}
	return t, err
}

func plantOne(ctx context.Context, client *framework.Framework, root string, nodes, perFolder int) (*tree, error) {
	t := &tree{root: root, paths: []string{root}}
	for i := 0; i < nodes; i += perFolder {
		t.paths = append(t.paths, fmt.Sprintf("%s/folder-%03d", root, i/perFolder))
	}
	for i := range nodes {
		t.leaves = append(t.leaves, fmt.Sprintf("%s/folder-%03d/node-%06d", root, i/perFolder, i))
	}
	t.paths = append(t.paths, t.leaves...)
	stat, err := client.Exists(ctx, t.paths[len(t.paths)-1])
	if err != nil || stat != nil {
		return t, err
	}
	for part := range slices.Chunk(t.paths, 1000) {
		var ops []framework.Op
		for _, path := range part {
			ops = append(ops, framework.CreateOp(path, stamp()))
		}
		if _, err := client.Transact(ctx, ops...); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// change sets the data of the first nodes.
func (t *tree) change(ctx context.Context, client *framework.Framework, nodes int) error {
	for part := range slices.Chunk(t.leaves[:nodes], 1000) {
		var ops []framework.Op
		for _, path := range part {
			ops = append(ops, framework.SetDataOp(path, stamp()))
		}
		if _, err := client.Transact(ctx, ops...); err != nil {
			return err
		}
	}
	return nil
}
