package framework

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
)

// DefaultMaxDecompressedSize bounds what one znode's data may become when it is
// decompressed: a thousand bytes of gzip can stand for a million.
const DefaultMaxDecompressedSize = 16 << 20

// ErrCompression reports data that could not be compressed or decompressed, or that
// would become larger than the provider allows.
var ErrCompression = errors.New("compression failed")

// CompressionProvider turns the data of znodes into what is stored and back. The
// paths are as the caller names them. Its methods are called from several goroutines
// at once and must not keep or change what they are given.
type CompressionProvider interface {
	// Compress returns what is stored for the data.
	Compress(path string, data []byte) ([]byte, error)

	// Decompress returns the data for what is stored. It is never asked about nothing.
	Decompress(path string, compressed []byte) ([]byte, error)
}

// GzipCompressionProvider is the default, with the format of Curator's class of this
// name: a stream as in RFC 1952. The zero value is ready to use.
type GzipCompressionProvider struct {
	// MaxSize is how many bytes may come out of Decompress. 0 stands for
	// DefaultMaxDecompressedSize. Decompress refuses to work with less than 0.
	MaxSize int
}

// Compress returns the data as a gzip stream.
func (GzipCompressionProvider) Compress(_ string, data []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return out.Bytes(), nil
}

// Decompress returns what is in a gzip stream, and an error if that is damaged or
// larger than MaxSize, of which it reads no more.
func (p GzipCompressionProvider) Decompress(_ string, compressed []byte) ([]byte, error) {
	limit := p.MaxSize
	switch {
	case limit < 0:
		return nil, fmt.Errorf("gzip: MaxSize %d, expected 0 or more", limit)
	case limit == 0:
		limit = DefaultMaxDecompressedSize
	case limit == math.MaxInt:
		limit-- // so that one byte more can be asked for
	}
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("gzip: %w", err)
	case len(data) > limit:
		return nil, fmt.Errorf("gzip: more than %d bytes", limit)
	default:
		return data, nil
	}
}

// WithCompressionProvider sets what [Compressed] and [Decompressed] use. Default:
// [GzipCompressionProvider].
func WithCompressionProvider(p CompressionProvider) Option {
	return optionFunc(func(c *config) error {
		if p == nil {
			return errors.New("compression provider nil, expected one")
		}
		c.compression = p
		return nil
	})
}

// CompressedOption is returned by [Compressed].
type CompressedOption struct{}

// Compressed stores the data compressed. The data's size limit is for what is
// stored. It is Curator's compressed().
func Compressed() CompressedOption { return CompressedOption{} }

//nolint:unparam // the interface is that of options which can fail
func (CompressedOption) applyCreate(c *createConfig) error { c.compressed = true; return nil }

//nolint:unparam // the interface is that of options which can fail
func (CompressedOption) applySet(c *setConfig) error { c.compressed = true; return nil }

// DecompressedOption is returned by [Decompressed].
type DecompressedOption struct{}

// Decompressed returns what was stored with [Compressed], here or in Java. Data that
// was not, or is damaged, or becomes too large is an [ErrCompression]; a znode
// without data, such as a parent, has nothing to decompress and yields nil. It is
// Curator's decompressed().
func Decompressed() DecompressedOption { return DecompressedOption{} }

func (DecompressedOption) applyGet(c *readConfig) error { c.decompressed = true; return nil }

// stored returns the data as it is to be sent.
func (f *Framework) stored(path string, data []byte, compressed bool) ([]byte, error) {
	if !compressed {
		return data, nil
	}
	out, err := f.cfg.compression.Compress(path, data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCompression, err)
	}
	return out, nil
}

func (f *Framework) decompress(path string, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, nil
	}
	out, err := f.cfg.compression.Decompress(path, data)
	if err != nil {
		return nil, fmt.Errorf("%w: %d bytes: %w", ErrCompression, len(data), err)
	}
	return out, nil
}
