// SPDX-License-Identifier: Apache-2.0

package framework

import "fmt"

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
