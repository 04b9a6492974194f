package cache

import (
	"fmt"

	"github.com/gocurator/curator/framework"
)

// Option is a setting of a [CuratorCache].
type Option func(*config) error

type config struct {
	single     bool
	compressed bool
	inflated   int // bytes
	keep       bool
	storage    CuratorCacheStorage
}

// SingleNodeCache keeps the znode itself and nothing below it. It is Curator's
// SINGLE_NODE_CACHE.
func SingleNodeCache() Option {
	return func(c *config) error { c.single = true; return nil }
}

// CompressedData decompresses data as [framework.Decompressed] does. A znode whose data cannot
// be decompressed is left out of the picture, and the log names it. All decompressed data
// together is bounded, see [WithMaxDecompressedSize]. It is the default for a client with
// [framework.WithCompression]. It is Curator's COMPRESSED_DATA.
func CompressedData() Option {
	return func(c *config) error { c.compressed = true; return nil }
}

// DefaultMaxDecompressedSize is how much decompressed data a cache keeps at most, in bytes,
// unless [WithMaxDecompressedSize] says otherwise.
const DefaultMaxDecompressedSize = 128 << 20

// WithMaxDecompressedSize sets how many bytes of decompressed data a cache with
// [CompressedData] keeps in all. A znode that would exceed them is left out of the picture
// until it changes, and the log names it. A storage without data needs no limit, and has none.
// Default: [DefaultMaxDecompressedSize].
func WithMaxDecompressedSize(n int) Option {
	return func(c *config) error {
		if n < 1 {
			return fmt.Errorf("%w: at most %d bytes of decompressed data, expected 1 or more", framework.ErrInvalidOption, n)
		}
		c.inflated = n
		return nil
	}
}

// DoNotClearOnClose keeps the picture when the cache is closed. It is Curator's
// DO_NOT_CLEAR_ON_CLOSE.
func DoNotClearOnClose() Option {
	return func(c *config) error { c.keep = true; return nil }
}

// WithStorage keeps the picture in the caller's storage, which must not serve another cache.
// The default is [NewStandardStorage].
func WithStorage(storage CuratorCacheStorage) Option {
	return func(c *config) error {
		if storage == nil {
			return fmt.Errorf("%w: storage nil, expected one such as NewStandardStorage()", framework.ErrInvalidOption)
		}
		c.storage = storage
		return nil
	}
}
