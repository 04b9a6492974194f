// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/usercode"
)

// index is the paths of the picture by the keys that a function of the program gives them.
type index struct {
	name   string
	keysOf func(*ChildData) []string

	// Guarded by picture.whole.
	keys  map[string][]string            // by path
	paths map[string]map[string]struct{} // by key
}

// set gives a path these keys instead of the ones that it has.
func (x *index) set(path string, keys []string) {
	for _, key := range x.keys[path] {
		delete(x.paths[key], path)
		if len(x.paths[key]) == 0 {
			delete(x.paths, key)
		}
	}
	if len(keys) == 0 {
		delete(x.keys, path)
		return
	}
	x.keys[path] = keys
	for _, key := range keys {
		if x.paths[key] == nil {
			x.paths[key] = make(map[string]struct{})
		}
		x.paths[key][path] = struct{}{}
	}
}

// WithIndex has the cache find znodes by keys, with [CuratorCache.ByIndex]. The function returns the
// keys of a znode, none to leave it out of the index. The cache calls it once for each state, before
// the state is in the picture. The keys must depend on the state alone. If the function panics, the
// log says so and the znode has no keys. The function must not call methods of the cache that wait
// for it, such as Close. If another cache has filled the storage, the function is given what the
// storage has. client-go calls this AddIndexers.
func WithIndex(name string, keys func(data *ChildData) []string) Option {
	return func(c *config) error {
		switch {
		case keys == nil:
			return fmt.Errorf("%w: WithIndex(%q) with a nil function, expected one that returns the keys of a znode", framework.ErrInvalidOption, name)
		case slices.ContainsFunc(c.indexes, func(x *index) bool { return x.name == name }):
			return fmt.Errorf("%w: WithIndex(%q) twice, expected a name of its own for each index", framework.ErrInvalidOption, name)
		}
		c.indexes = append(c.indexes, &index{
			name: name, keysOf: keys, keys: make(map[string][]string), paths: make(map[string]map[string]struct{}),
		})
		return nil
	}
}

// ByIndex returns the znodes of the picture that have a key in the index with this name, in no
// particular order. All of them are of one moment. It takes time for these znodes only, and sends
// nothing. Listeners and [CuratorCache.WaitFor] find the index as new as their event. ByIndex fails
// with [framework.ErrInvalidOption] if no [WithIndex] has made the index.
func (c *CuratorCache) ByIndex(name, key string) ([]*ChildData, error) {
	at := slices.IndexFunc(c.picture.indexes, func(x *index) bool { return x.name == name })
	if at < 0 {
		var names []string
		for _, x := range c.picture.indexes {
			names = append(names, x.name)
		}
		return nil, c.failed("by index", fmt.Errorf("%w: index %q, expected one that WithIndex has made: [%s]",
			framework.ErrInvalidOption, name, strings.Join(names, " ")))
	}
	c.picture.whole.RLock()
	defer c.picture.whole.RUnlock()
	var found []*ChildData
	for path := range c.picture.indexes[at].paths[key] {
		if data, ok := c.picture.storage.Get(path); ok { // a storage of the caller may have lost it
			found = append(found, data)
		}
	}
	return found, nil
}

// keys returns the keys of a state in each index.
func (p *picture) keys(data *ChildData) [][]string {
	all := make([][]string, len(p.indexes))
	for i, x := range p.indexes {
		if panicked := usercode.Apart(func() { all[i] = slices.Clone(x.keysOf(data)) }); panicked != nil {
			p.log.Error("cache index panicked", logPath, data.Path, "index", x.name, "panic", panicked.Value, "stack", panicked.Stack)
		}
	}
	return all
}

// index gives a path these keys in each index, nil for none.
func (p *picture) index(path string, keys [][]string) {
	for i, x := range p.indexes {
		if keys == nil {
			x.set(path, nil)
			continue
		}
		x.set(path, keys[i])
	}
}
