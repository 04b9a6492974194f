// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
)

// Option is a setting of a [CuratorCache].
type Option func(*config) error

type config struct {
	limits     limits
	depthBy    string // the option that set the depth
	compressed bool
	inflated   int // bytes
	keep       bool
	storage    CuratorCacheStorage
}

// validate checks the options together.
func (c *config) validate() error {
	if c.limits.depth == 0 && c.limits.selector.isSet() {
		return fmt.Errorf("%w: WithSelector beside %s, expected a depth of 1 or more: the selector would never be asked",
			framework.ErrInvalidOption, c.depthBy)
	}
	return nil
}

// limitDepth sets the depth for one of the options that do.
func (c *config) limitDepth(option string, depth int) error {
	if c.depthBy != "" && c.depthBy != option {
		return fmt.Errorf("%w: %s beside %s, expected one of them: each sets how deep the cache goes",
			framework.ErrInvalidOption, option, c.depthBy)
	}
	c.depthBy, c.limits.depth = option, depth
	return nil
}

// SingleNodeCache keeps the znode itself and nothing below it. It is Curator's
// SINGLE_NODE_CACHE.
func SingleNodeCache() Option {
	return func(c *config) error { return c.limitDepth("SingleNodeCache", 0) }
}

// WithMaxDepth keeps the znode and at most n levels below it: with 1 its children, with 2
// their children too. Deeper znodes are not read. With 0 it is [SingleNodeCache]. It is
// TreeCache's setMaxDepth of Curator. Default: all levels.
func WithMaxDepth(n int) Option {
	return func(c *config) error {
		if n < 0 {
			return fmt.Errorf("%w: WithMaxDepth(%d), expected 0 or more levels", framework.ErrInvalidOption, n)
		}
		return c.limitDepth(fmt.Sprintf("WithMaxDepth(%d)", n), n)
	}
}

// WithChildrenOnly keeps the children of the znode. It keeps and reads neither the znode
// itself nor the znodes below its children. It is Curator's PathChildrenCache.
func WithChildrenOnly() Option {
	return func(c *config) error {
		c.limits.childrenOnly = true
		return c.limitDepth("WithChildrenOnly", 1)
	}
}

// WithSelector keeps only what the selector selects. Nothing else is read. It is TreeCache's
// setSelector of Curator. Default: all znodes.
func WithSelector(selector TreeCacheSelector) Option {
	return options.Checked(selector.isSet(), func(c *config) { c.limits.selector = selector },
		"%w: WithSelector without TraverseChildren and AcceptChild, expected one function or both", framework.ErrInvalidOption)
}

// CompressedData decompresses data as [framework.Decompressed] does. A znode whose data cannot
// be decompressed is left out of the picture, and the log names it. All decompressed data
// together is bounded, see [WithMaxDecompressedSize]. It is the default for a client with
// [framework.WithCompression]. It is Curator's COMPRESSED_DATA.
func CompressedData() Option {
	return options.Plain(func(c *config) { c.compressed = true })
}

// DefaultMaxDecompressedSize bounds the decompressed data of a cache, in bytes, without
// [WithMaxDecompressedSize].
const DefaultMaxDecompressedSize = 128 << 20

// WithMaxDecompressedSize sets how many bytes of decompressed data a cache with
// [CompressedData] keeps in all. A znode that would exceed them is left out of the picture
// until it changes, and the log names it. A storage without data needs no limit, and has none.
// Default: [DefaultMaxDecompressedSize].
func WithMaxDecompressedSize(n int) Option {
	return options.Checked(n >= 1, func(c *config) { c.inflated = n },
		"%w: at most %d bytes of decompressed data, expected 1 or more", framework.ErrInvalidOption, n)
}

// DoNotClearOnClose keeps the picture when the cache is closed. It is Curator's
// DO_NOT_CLEAR_ON_CLOSE.
func DoNotClearOnClose() Option {
	return options.Plain(func(c *config) { c.keep = true })
}

// WithStorage keeps the picture in the caller's storage, which must not serve another cache.
// The default is [NewStandardStorage].
func WithStorage(storage CuratorCacheStorage) Option {
	return options.Checked(!options.IsNil(storage), func(c *config) { c.storage = storage },
		"%w: storage nil, expected one such as NewStandardStorage()", framework.ErrInvalidOption)
}
