// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync"
)

// defaultMaxDecompressedSize bounds the size of one znode's data after decompression: a
// thousand bytes of gzip can expand to a million.
const defaultMaxDecompressedSize = 16 << 20

// CompressionProvider compresses the data of znodes for storage, and decompresses it. The
// paths are as the caller names them. Its methods are called from several goroutines
// at once and must not keep or change their arguments.
type CompressionProvider interface {
	// Compress returns the stored form of the data.
	Compress(path string, data []byte) ([]byte, error)

	// Decompress returns the data of a stored form. It is not called for a znode without
	// data.
	Decompress(path string, compressed []byte) ([]byte, error)
}

// GzipCompressionProvider is the default provider. Like Curator's class of the same name it
// writes a gzip stream (RFC 1952). The zero value is ready to use.
type GzipCompressionProvider struct {
	// MaxSize is the largest result of Decompress in bytes. 0 means
	// 16 MiB. Decompress fails if MaxSize is negative.
	MaxSize int
}

// emptyStream is the gzip stream of no data. The nodes of most recipes have none.
var emptyStream = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// writers has [*gzip.Writer], which take most of a megabyte each.
var writers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// Compress returns the data as a gzip stream.
func (GzipCompressionProvider) Compress(_ string, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return bytes.Clone(emptyStream), nil
	}
	var out bytes.Buffer
	w := writers.Get().(*gzip.Writer) //nolint:forcetypeassert // nothing else is put
	defer writers.Put(w)
	w.Reset(&out)
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return out.Bytes(), nil
}

// Decompress returns the content of a gzip stream. It returns an error if the stream is
// damaged, or if its content is larger than MaxSize: it stops reading there.
func (p GzipCompressionProvider) Decompress(_ string, compressed []byte) ([]byte, error) {
	limit := p.MaxSize
	switch {
	case limit < 0:
		return nil, fmt.Errorf("gzip: MaxSize %d, expected 0 or more", limit)
	case limit == 0:
		limit = defaultMaxDecompressedSize
	case limit == math.MaxInt:
		limit-- // so that one byte more can be asked for
	}
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	data := bytes.NewBuffer(make([]byte, 0, sizeHint(compressed, limit)))
	_, err = data.ReadFrom(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("gzip: %w", err)
	case data.Len() > limit:
		return nil, fmt.Errorf("gzip: more than %d bytes", limit)
	default:
		return data.Bytes(), nil
	}
}

// sizeHint returns how much memory to begin with. The trailer of a stream says how long its
// content is, modulo 2^32. A wrong trailer costs no more than content of the limit would, or
// than the compressed form can expand to.
func sizeHint(compressed []byte, limit int) int {
	const (
		trailer      = 4    // bytes, the last ones
		maxExpansion = 1032 // of deflate
	)
	if len(compressed) < trailer {
		return 0
	}
	said := int64(binary.LittleEndian.Uint32(compressed[len(compressed)-trailer:]))
	// ReadFrom wants room for the end of the stream.
	return int(min(said, int64(limit), maxExpansion*int64(len(compressed)))) + bytes.MinRead
}

// stored returns the data as it will be sent.
func (f *Framework) stored(path string, data []byte, c *common) ([]byte, error) {
	if !c.given.chooses(compressed, uncompressed, f.compressed) {
		return data, nil
	}
	out, err := f.cfg.compression.Compress(path, data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCompression, err)
	}
	return out, nil
}

// Compressed stores the data compressed. The size limit of requests applies to the
// compressed data. It is Curator's compressed().
func Compressed() CreateSetOption { return flag{is: compressed, not: uncompressed} }

// Uncompressed stores the data as it is, despite [WithCompression]. It is Curator's uncompressed().
func Uncompressed() CreateSetOption { return flag{is: uncompressed, not: compressed} }

// Decompressed returns data that was stored with [Compressed], here or in Java. The read
// fails with [ErrCompression] if the data was stored otherwise, is damaged, or is too large
// when decompressed. A znode without data, such as a parent, yields nil. The limit is the
// provider's, for each znode: many such reads at once take so many times the memory. See
// [Framework.Decompress]. It is Curator's decompressed().
func Decompressed() ReadOption { return flag{is: decompressed, not: undecompressed} }

// Undecompressed returns the data as it is stored, despite [WithCompression]. It is Curator's
// undecompressed().
func Undecompressed() ReadOption { return flag{is: undecompressed, not: decompressed} }

// Decompress returns the data of a znode that was read without [Decompressed], as that option
// would. It sends nothing. With it a program that reads many znodes can decompress one after
// the other.
func (f *Framework) Decompress(path string, stored []byte) ([]byte, error) {
	return f.cfg.decompress(path, stored)
}

// CompressionEnabled reports whether [WithCompression] is on.
func (f *Framework) CompressionEnabled() bool { return f.compressed }

func (c *config) decompress(path string, data []byte) ([]byte, error) {
	if len(data) == 0 {
		return nil, nil // no stream at all, such as the data of a parent
	}
	out, err := c.compression.Decompress(path, data)
	if err != nil {
		return nil, fmt.Errorf("%w: %d bytes: %w", ErrCompression, len(data), err)
	}
	return out, nil
}
