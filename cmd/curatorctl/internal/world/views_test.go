// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zkserver"
)

// views prepares a picture of the whole tree.
func (m *member) views() error {
	var opts []cache.Option
	switch m.o.get("depth") {
	case "1":
		opts = append(opts, cache.WithMaxDepth(1))
	case "children":
		opts = append(opts, cache.WithChildrenOnly())
	case "selected":
		opts = append(opts, cache.WithSelector(cache.TreeCacheSelector{TraverseChildren: isOpen, AcceptChild: isNotLeftOut}))
	default:
	}
	tree, err := cache.NewCuratorCache(m.client, "/", opts...)
	if err != nil {
		return err
	}
	m.tree, m.told = tree, make(map[string]string)
	m.close = append(m.close, tree.Close)
	newest := make(map[string]int64) // by path, also of those that are no more
	tree.Listen(func(e cache.Event) {
		m.all.Lock()
		defer m.all.Unlock()
		was, there := m.told[e.Path]
		if (e.Old != nil) != there || there && string(e.Old.Data) != was {
			m.findf("was told %s of %s, and knew %q (%t)", e.Type, e.Path, was, there)
		}
		if e.New == nil {
			delete(m.told, e.Path)
			return
		}
		now := e.New.Stat.Mzxid
		if last, again := newest[e.Path]; again && now <= last && !m.o.is("faults", "restores") {
			m.findf("was told %#x of %s after %#x", now, e.Path, last)
		}
		m.told[e.Path], newest[e.Path] = string(e.New.Data), now
	}, cache.For(cache.NodeCreated, cache.NodeChanged, cache.NodeDeleted))
	return tree.Start()
}

// isNotLeftOut reports whether a view of selected znodes has one, and isOpen whether it has what is below one.
func isNotLeftOut(path string) bool { return len(path)%3 > 0 }
func isOpen(path string) bool       { return len(path)%5 > 0 }

// sees reports whether the view has a znode.
func (m *member) sees(path string) bool {
	level := len(strings.FieldsFunc(path, func(r rune) bool { return r == '/' }))
	switch m.o.get("depth") {
	case "1":
		return level <= 1
	case "children":
		return level == 1
	case "selected":
		for end := range path { // all above it are selected and open, and it is selected
			if above := path[:end]; end > 0 && path[end] == '/' && (!isNotLeftOut(above) || !isOpen(above)) {
				return false
			}
		}
		return path == "/" || isNotLeftOut(path)
	default:
		return true
	}
}

// settleViews finds pictures that differ from the tree. Clients confirm their sessions meanwhile, so one difference is none.
func (all *truth) settleViews(ctx context.Context) {
	for i, m := range all.members {
		if m.tree == nil {
			continue
		}
		all.chance(ruleViews)
		if err := m.tree.Fresh(ctx); err != nil {
			m.w.Findf("view %d: %v", i, err)
		}
		wrong := m.wrongInView()
		for n := 0; n < 3 && wrong != ""; n++ {
			time.Sleep(time.Second)
			wrong = m.wrongInView()
		}
		if wrong != "" {
			m.w.Findf("view %d has %s", i, wrong)
		}
	}
}

// wrongInView returns a difference between the picture and the tree, or "".
func (m *member) wrongInView() string {
	m.all.Lock()
	told := len(m.told)
	m.all.Unlock()
	if n := m.tree.Size(); n != told {
		return fmt.Sprintf("%d znodes, and its listener was told of %d", n, told)
	}
	znodes := slices.DeleteFunc(m.znodes("/"), func(z zkserver.Znode) bool { return !m.sees(z.Path) })
	for path := range m.tree.Stream() {
		isIt := func(z zkserver.Znode) bool { return z.Path == path }
		if !strings.HasPrefix(path, "/zookeeper") && !slices.ContainsFunc(znodes, isIt) {
			return path + ", and the servers do not"
		}
	}
	for _, z := range znodes {
		has, found := m.tree.Get(z.Path)
		lacks := !found && m.o.is("compression", "on") // what is not compressed
		if !lacks && (!found || !bytes.Equal(plain(has.Data), z.Data)) {
			return fmt.Sprintf("%v at %s, and the servers have %q", has, z.Path, z.Data)
		}
	}
	return ""
}
