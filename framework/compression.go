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
