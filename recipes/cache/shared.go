// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"sync"

	"github.com/gocurator/curator/framework"
)

// Shared is one cache for components of a program that come and go. The cache runs while a
// component has it open. All methods are safe for concurrent use.
type Shared struct {
	client *framework.Framework
	path   string
	opts   []Option

	// mu is held until a cache has ended: the next one may have its storage.
	mu    sync.Mutex
	users int
	cache *CuratorCache // nil without users
}

// NewShared returns a [Shared] whose cache is made as [NewCuratorCache] does. Nothing is sent
// before [Shared.Open]. It fails as NewCuratorCache does.
func NewShared(client *framework.Framework, path string, opts ...Option) (*Shared, error) {
	if _, err := NewCuratorCache(client, path, opts...); err != nil {
		return nil, err
	}
	return &Shared{client: client, path: path, opts: slices.Clone(opts)}, nil
}

// Open returns the cache, and a function that gives it back. The first Open starts the cache, and
// the last function that is called closes it, and blocks as [CuratorCache.Close] does. A later Open
// starts another cache. The function may be called more than once. The component must not close
// the cache, and removes its listeners. A listener with [WithReplay] gets the same events whichever
// component came first. Open does not wait until the picture is full: [CuratorCache.Fresh] does.
// Open waits for the end of a cache that is being closed. It fails as NewCuratorCache does.
func (s *Shared) Open() (c *CuratorCache, giveBack func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache == nil {
		c, err := NewCuratorCache(s.client, s.path, s.opts...)
		if err != nil {
			return nil, nil, err
		}
		if err := c.Start(); err != nil {
			return nil, nil, err
		}
		s.cache = c
	}
	s.users++
	return s.cache, sync.OnceFunc(s.giveBack), nil
}

func (s *Shared) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	_ = s.cache.Close() // it never fails
	s.cache = nil
}
