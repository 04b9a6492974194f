// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/typed"
	"github.com/gocurator/curator/testing/zkproxy"
)

const (
	noneStale     promise = "stale"     // a picture has all that was committed before it was made fresh
	noneMissed    promise = "missed"    // what lasts was told
	noneReordered promise = "reordered" // of a path only its states are told, in order and once
)

// cacheWorkloads are package cache and [framework.Framework.Follow].
var cacheWorkloads = []workload{{
	name: "cache", workers: 2, least: 60, folders: noFolders, prepare: prepareCache,
	promises: []promise{noneStale, noneMissed, noneReordered}, findAtServers: wrongPictures, done: countPictures,
}}

// What is below the folder of a campaign's tree.
const (
	treeFolder    = "/tree"    // is what all workers change
	writersFolder = "/writers" // has a node for each worker
	doneFolder    = "/done"    // has a node for each worker that changes nothing any more
)

// treePaths are the nodes of the tree. Parents come before their children.
var treePaths = []string{"", "/a", "/b", "/c", "/a/x", "/a/y", "/b/x", "/b/y", "/c/x", "/c/y", "/c/x/z"}

const (
	betweenWrites = time.Second      // at most
	concludeTime  = 2 * patience     // until all workers have stopped, and all caches have settled
	newsTime      = 10 * time.Second // for the last news after that
)

// leaf is the data of a node in the tree.
type leaf struct {
	By string `json:"by"`
	N  int    `json:"n"`
}

func (l leaf) data() []byte { return fmt.Appendf(nil, `{"by":%q,"n":%d}`, l.By, l.N) }

// gardener changes a tree and follows it.
type gardener struct {
	*worker
	leaves  *typed.Folder[leaf]
	seen    int64 // the newest transaction of its own that it knows
	written int
	joined  int64 // the session in which it has marked that it changes the tree; 0 is none
	started int
	caches  []*followedCache
	loop    *followedNode
}

// prepareCache changes the tree by random programs. The first worker of a process follows it
// with persistent watches, and the second with one-shot watches where a proxy can refuse the
// others. Each worker also follows a part of the tree, and one node in a loop.
func prepareCache(w *worker) (turn func(context.Context), err error) {
	g := &gardener{worker: w}
	if g.leaves, err = typed.NewFolder(w.client.framework, g.tree()+"/{folder}/{name}", typed.JSON[leaf]()); err != nil {
		return nil, err
	}
	follows := []string{g.tree(), g.tree() + "/c"}
	loop := g.tree() + "/a"
	if strings.HasSuffix(w.name, ".1") {
		follows, loop = []string{w.spec.path(), g.tree() + "/b/x"}, g.tree()+"/b"
		for _, p := range w.client.way.proxies {
			p.Intercept(refuseWatches(follows[0], loop))
		}
	}
	for _, root := range follows {
		if err := g.follow(root); err != nil {
			return nil, errors.Join(err, g.stop())
		}
	}
	g.loop = g.followNode(loop)
	return g.turn, nil
}

// refuseWatches has the server refuse persistent watches on some paths, by asking for a kind
// of watch that no server has.
func refuseWatches(paths ...string) func(zkproxy.Frame) zkproxy.Verdict {
	const noSuchMode = 99
	return func(f zkproxy.Frame) zkproxy.Verdict {
		if f.Direction != zkproxy.ToServer || f.Op != zkproxy.OpAddWatch || !slices.Contains(paths, f.Path) {
			return zkproxy.Pass
		}
		body := slices.Clone(f.Body)
		binary.BigEndian.PutUint32(body[len(body)-4:], noSuchMode)
		return zkproxy.Replace(body)
	}
}

func (g *gardener) tree() string { return g.spec.path() + treeFolder }

// node is the path of this worker's node in a folder. A process that replaces another has the
// same one.
func (g *gardener) node(folder string) string {
	process, _, _ := strings.Cut(g.client.cfg.Name, ".")
	return g.spec.path() + folder + "/" + process + g.name[strings.LastIndex(g.name, "."):]
}

// turn is a change of the tree, and now and then a look at the caches.
func (g *gardener) turn(ctx context.Context) {
	defer g.writeDown()
	if g.last {
		if err := g.conclude(ctx); err != nil {
			g.client.history.add(event{Kind: failed, Lock: g.spec.Name, Error: err.Error()})
			g.client.giveUpOn(g.spec.Name)
		}
		return
	}
	if !g.hurried() && !g.pause(g.upTo(betweenWrites)) {
		return
	}
	ctx, cancel := g.bounds(ctx)
	defer cancel()
	if err := g.join(ctx); err != nil {
		return // the next turn tries again
	}
	g.change(ctx)
	n := g.random.IntN(len(g.caches))
	switch g.random.IntN(40) {
	case 0:
		g.replace(ctx, n)
	case 1, 2, 3, 4, 5, 6, 7, 8:
		_ = g.look(ctx, g.caches[n]) // an error leaves no picture to judge
	}
}

// join adds this worker to those that the last turn waits for. Restored servers may have forgotten it, and have ended
// its session.
func (g *gardener) join(ctx context.Context) error {
	session := g.session()
	if session != 0 && g.joined == session {
		return nil
	}
	err := g.mark(ctx, writersFolder)
	if err == nil {
		g.joined = session
	}
	return err
}

// mark creates the node of this worker in a folder.
func (g *gardener) mark(ctx context.Context, folder string) error {
	_, err := g.client.framework.Create(ctx, g.node(folder), nil, framework.CreatingParentsIfNeeded())
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// create creates a node, and its parents with data of their own. No two states have the same data: after a session or
// an election, caches tell no listener of a state with the same data.
func (g *gardener) create(ctx context.Context, path string, data []byte, stat *framework.Stat) error {
	_, err := g.client.framework.Create(ctx, path, data, framework.StoringStatIn(stat))
	if !errors.Is(err, framework.ErrNoNode) {
		return err
	}
	g.written++
	parent, _ := framework.SplitPath(path)
	err = g.create(ctx, parent, leaf{By: g.name, N: g.written}.data(), stat)
	if err != nil && !errors.Is(err, framework.ErrNodeExists) {
		return err
	}
	_, err = g.client.framework.Create(ctx, path, data, framework.StoringStatIn(stat))
	return err
}

// change makes one change, which may fail for what is there or not.
func (g *gardener) change(ctx context.Context) {
	client, path := g.client.framework, g.tree()+treePaths[g.random.IntN(len(treePaths))]
	g.written++
	data := leaf{By: g.name, N: g.written}.data()
	var stat framework.Stat
	var err error
	switch g.random.IntN(12) {
	case 0, 1, 2, 3:
		err = g.create(ctx, path, data, &stat)
	case 4, 5, 6, 7:
		err = client.Set(ctx, path, data, framework.StoringStatIn(&stat))
	case 8, 9:
		err = client.Delete(ctx, path)
	case 10:
		err = client.Delete(ctx, path, framework.DeletingChildrenIfNeeded())
	default: // has the version of the one before
		_, err = client.Transact(ctx, framework.DeleteOp(path), framework.CreateOp(path, data))
	}
	if err == nil {
		g.seen = max(g.seen, stat.Mzxid)
	}
}

// replace closes a cache and follows the same tree with another.
func (g *gardener) replace(ctx context.Context, n int) {
	old := g.caches[n]
	_ = g.look(ctx, old) // an error leaves no picture to judge
	g.caches = slices.Delete(g.caches, n, n+1)
	err := old.stop()
	old.told.writeDown(g.worker)
	if err = errors.Join(err, g.follow(old.told.root)); err != nil {
		g.client.giveUpOn(fmt.Sprintf("%s (%v)", g.spec.Name, err))
	}
}

// writeDown records what all followers were told.
func (g *gardener) writeDown() {
	for _, c := range g.caches {
		c.told.writeDown(g.worker)
	}
	g.loop.told.writeDown(g.worker)
}

// conclude ends the work. When no worker changes the tree any more, each cache must become
// equal to it, and each listener must be told so.
func (g *gardener) conclude(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, concludeTime)
	defer cancel()
	defer func() { err = errors.Join(err, g.stop()) }()
	if err := errors.Join(g.join(ctx), g.mark(ctx, doneFolder)); err != nil {
		return err
	}
	if err := g.awaitOthers(ctx); err != nil {
		return err
	}
	tree, err := g.read(ctx)
	if err != nil {
		return err
	}
	for _, c := range g.caches {
		if err := g.look(ctx, c); err != nil {
			return err
		}
		c.told.conclude(ctx, g, statesOf(c.cache))
	}
	g.loop.told.conclude(ctx, g, below(tree, g.loop.told.root))
	return nil
}

// awaitOthers returns when no worker changes the tree any more.
func (g *gardener) awaitOthers(ctx context.Context) error {
	client := g.client.framework
	for done, err := range client.FollowChildren(ctx, g.spec.path()+doneFolder) {
		if err != nil && !framework.Retryable(err) {
			return err
		}
		writers, failure := client.Children(ctx, g.spec.path()+writersFolder)
		if failure != nil {
			return failure
		}
		if err == nil && len(done.Names) >= len(writers) {
			g.seen = max(g.seen, done.Stat.Pzxid)
			return nil
		}
	}
	return ctx.Err()
}

// read reads the tree without a cache, and records it as a picture. It is what proves that
// servers have lost something.
func (g *gardener) read(ctx context.Context) ([]sighting, error) {
	client := g.client.framework
	if err := client.Sync(ctx, g.tree()); err != nil {
		return nil, err
	}
	data := make([][]byte, len(treePaths))
	stats, absent := make([]framework.Stat, len(treePaths)), make([]bool, len(treePaths))
	var reads []framework.Read
	for i, path := range treePaths {
		reads = append(reads, framework.ReadData(g.tree()+path, &data[i], framework.StoringStatIn(&stats[i]), framework.StoringAbsenceIn(&absent[i])))
	}
	if err := client.Pipeline(ctx, reads...); err != nil {
		return nil, err
	}
	var tree []sighting
	for i, path := range treePaths {
		if !absent[i] {
			tree = append(tree, sightingOf(g.tree()+path, &stats[i], data[i]))
		}
	}
	g.record(pictured, 0, treeItself, treePicture{Root: g.tree(), Deep: true, Since: g.seen, Nodes: tree})
	return tree, nil
}

// look makes the picture of a cache fresh and records it, as it is and through typed views.
func (g *gardener) look(ctx context.Context, c *followedCache) error {
	since, called := g.heard(), monotonic()
	if err := c.cache.Fresh(ctx); err != nil {
		return err
	}
	g.record(pictured, called, c.told.id, treePicture{Root: c.told.root, Deep: true, Since: since, Nodes: statesOf(c.cache)})
	views := treePicture{Root: g.tree() + "/*/*", Since: since}
	for view, err := range g.leaves.Cached(c.cache) {
		var data []byte // a parent that was created on the way to a node has none
		if err == nil {
			data = view.Value.data()
		}
		views.Nodes = append(views.Nodes, sightingOf(view.Path, &view.Stat, data))
	}
	if c.told.root == g.tree() {
		g.record(pictured, called, c.told.id+" typed", views)
	}
	return nil
}

// heard is the newest transaction that this worker has made, or was told of.
func (g *gardener) heard() int64 {
	newest := max(g.seen, g.loop.told.heard())
	for _, c := range g.caches {
		newest = max(newest, c.told.heard())
	}
	return newest
}

// stop closes all that follows the tree.
func (g *gardener) stop() (err error) {
	for _, c := range g.caches {
		err = errors.Join(err, c.stop())
	}
	if g.loop != nil {
		g.loop.stop()
	}
	return err
}
