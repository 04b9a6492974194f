// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/cache"
)

// State is what [Node.Follow] knows of a znode.
type State[T any] struct {
	Value T
	Stat  *framework.Stat // with which Value was read; nil before the first value
}

// Follow yields the value of the znode and then each newer one, as [framework.Framework.Follow] does:
//
//	for state, err := range node.Follow(ctx) {
//		if err != nil {
//			log.Println("the last good value stays in use", err)
//			continue
//		}
//		apply(state.Value)
//	}
//
// Without an error there is a value that the codec has accepted. Data that the codec refuses comes as an error that
// matches [ErrCodec], and a missing znode as one that matches [framework.ErrNoNode]. All errors come with the last value,
// which is the zero value before the first one. The sequence goes on after these two errors, and after the errors after
// which framework's goes on.
func (n *Node[T]) Follow(ctx context.Context) iter.Seq2[State[T], error] {
	return func(yield func(State[T], error) bool) {
		var last State[T]
		for node, err := range n.client.Follow(ctx, n.path) {
			switch {
			case err != nil:
			case !node.Exists():
				err = fmt.Errorf("typed: %s: %w", n.path, framework.ErrNoNode)
			default:
				var value T
				if value, err = n.codec.decode(n.path, node.Data); err == nil {
					last = State[T]{value, node.Stat}
				}
			}
			if !yield(last, err) {
				return
			}
		}
	}
}

// Change is a change of a znode of a [Folder].
type Change[T any] struct {
	Path       string
	Parameters []string // the values of the parameters, in their order
	Old, New   *T       // nil for a creation, for a deletion, and for data that the codec refuses
	Err        error    // matches ErrCodec if the codec refuses the new data
}

// OnChange calls fn with each change of the folder's znodes in the picture of a cache, on a goroutine of its own; see
// [cache.CuratorCache.Listen].
func (f *Folder[T]) OnChange(c *cache.CuratorCache, fn func(Change[T])) (*listen.Registration, error) {
	switch {
	case c == nil:
		return nil, fmt.Errorf("typed: %w", errNilCache)
	case fn == nil:
		return nil, fmt.Errorf("typed: %w: function nil, expected one that takes changes", framework.ErrInvalidOption)
	}
	return c.Listen(func(e cache.Event) {
		parameters, ok := f.parameters(e.Path)
		if !ok || e.Type == cache.Initialized {
			return
		}
		change := Change[T]{Path: e.Path, Parameters: parameters}
		change.Old, _ = f.decode(e.Path, e.Old)
		change.New, change.Err = f.decode(e.Path, e.New)
		fn(change)
	}), nil
}

// decode returns the value of a state, nil for none.
func (f *Folder[T]) decode(path string, data *cache.ChildData) (*T, error) {
	if data == nil {
		return nil, nil //nolint:nilnil // no state has no value
	}
	value, err := f.codec.decode(path, data.Data)
	if err != nil {
		return nil, err
	}
	return &value, nil
}

// Values reads the values of the znodes of one list, by the last parameter, for the given values of the other
// parameters. It takes two round trips; see [framework.Framework.ChildrenData]. Values that the codec refuses are left
// out, and the error, which matches [ErrCodec], names them; the other values come with it.
func (f *Folder[T]) Values(ctx context.Context, values ...string) (map[string]T, error) {
	path, err := f.resolve(f.form[:len(f.form)-1], values)
	if err != nil {
		return nil, err
	}
	children, err := f.client.ChildrenData(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	found := make(map[string]T, len(children))
	var refused []error
	for _, child := range children {
		value, err := f.codec.decode(framework.JoinPath(path, child.Name), child.Data)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		found[child.Name] = value
	}
	return found, errors.Join(refused...)
}
