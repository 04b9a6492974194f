// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"errors"
	"fmt"
	"iter"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
)

var errNilCache = fmt.Errorf("%w: cache nil, expected a *cache.CuratorCache", framework.ErrInvalidOption)

// Cached returns the value in the picture of a cache, and the Stat it was read with. It sends
// nothing, and does not block. It fails with [framework.ErrNoNode] when the picture does not have
// the znode, or with [cache.ErrClosed] if the cache is closed by then, and with [ErrCodec]. The
// picture may lag behind: see [cache.CuratorCache.Fresh]. A picture that
// [cache.DoNotClearOnClose] has kept stays as it is.
func (n *Node[T]) Cached(c *cache.CuratorCache) (T, framework.Stat, error) {
	var none T
	if c == nil {
		return none, framework.Stat{}, fmt.Errorf("typed: %s: %w", n.path, errNilCache)
	}
	data, found := c.Get(n.path)
	if !found {
		reason := framework.ErrNoNode
		if err := c.Err(); errors.Is(err, cache.ErrClosed) { // asked after Get: Close may empty the picture in between
			reason = err
		}
		return none, framework.Stat{}, fmt.Errorf("typed: %s in the cache of %s: %w", n.path, c.Path(), reason)
	}
	value, err := n.codec.decode(n.path, data.Data)
	return value, data.Stat, err
}

// Cached iterates over the znodes of the folder in the picture of a cache, in no particular
// order. It takes the children of a znode from the picture when the loop comes to them. It looks
// at no other znodes, however large the picture is. A znode whose name is a parameter must be in
// the picture. Otherwise the znodes below it are left out. The error is [ErrCodec] for a znode
// whose data the codec does not understand; the loop may go on. When the cache is closed and its
// picture empty, the only error is [cache.ErrClosed]. Cached sends nothing.
func (f *Folder[T]) Cached(c *cache.CuratorCache) iter.Seq2[*CachedNode[T], error] {
	return func(yield func(*CachedNode[T], error) bool) {
		if c == nil {
			yield(nil, fmt.Errorf("typed: %w", errNilCache))
			return
		}
		if err := c.Err(); errors.Is(err, cache.ErrClosed) && c.Size() == 0 {
			yield(nil, fmt.Errorf("typed: the cache of %s: %w", c.Path(), err))
			return
		}
		root := framework.PathNames(c.Path())
		if !f.fits(root) {
			return
		}
		f.walk(c, c.Path(), len(root), func(data *cache.ChildData) bool { return yield(f.cached(data)) })
	}
}

// cached returns a znode of the folder.
func (f *Folder[T]) cached(data *cache.ChildData) (*CachedNode[T], error) {
	parameters, _ := f.parameters(data.Path)
	value, err := f.codec.decode(data.Path, data.Data)
	return &CachedNode[T]{Path: data.Path, Parameters: parameters, Value: value, Stat: data.Stat}, err
}

// walk calls yield for the znodes of the folder at a path and below it, and reports whether all
// calls returned true. The path fits as many names of the form.
func (f *Folder[T]) walk(c *cache.CuratorCache, path string, names int, yield func(*cache.ChildData) bool) bool {
	if names == len(f.form) { // the path of the cache
		if data, found := c.Get(path); found {
			yield(data)
		}
		return true // there is no other
	}
	if name := f.form[names]; !isParameter(name) {
		return f.walk(c, framework.JoinPath(path, name), names+1, yield)
	}
	isLast := names+1 == len(f.form)
	for _, child := range c.Children(path) {
		if isLast && !yield(child) || !isLast && !f.walk(c, child.Path, names+1, yield) {
			return false
		}
	}
	return true
}

// CachedNode is a znode of a [Folder] in the picture of a cache.
type CachedNode[T any] struct {
	Path       string
	Parameters []string // the values of the parameters, in their order
	Value      T        // the error of the codec
	Stat       framework.Stat
}

// parameters returns the values of the parameters in a path of the form.
func (f *Folder[T]) parameters(path string) (values []string, ok bool) {
	names := framework.PathNames(path)
	if len(names) != len(f.form) || !f.fits(names) {
		return nil, false
	}
	for i, name := range names {
		if isParameter(f.form[i]) {
			values = append(values, name)
		}
	}
	return values, true
}

// fits reports whether a path with these names fits the form, or its beginning.
func (f *Folder[T]) fits(names []string) bool {
	for i, name := range names {
		if i >= len(f.form) || !isParameter(f.form[i]) && name != f.form[i] {
			return false
		}
	}
	return true
}
