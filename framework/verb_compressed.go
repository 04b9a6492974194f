package framework

import "fmt"

// compression is what the options of one call say, with the client's default when they say nothing.
type compression int8

const (
	byDefault compression = iota
	switchedOn
	switchedOff
)

// choose sets what an option says. both names it and its opposite.
func (c *compression) choose(off bool, both string) error {
	choice := switchedOn
	if off {
		choice = switchedOff
	}
	if *c != byDefault && *c != choice {
		return fmt.Errorf("%s, expected one of them", both)
	}
	*c = choice
	return nil
}

func (c *compression) or(enabled bool) bool { return *c == switchedOn || *c == byDefault && enabled }

// CompressedOption is returned by [Compressed] and [Uncompressed].
type CompressedOption struct{ off bool }

// Compressed stores the data compressed. The size limit of requests applies to the
// compressed data. It is Curator's compressed().
func Compressed() CompressedOption { return CompressedOption{} }

// Uncompressed stores the data as it is, despite [WithCompression]. It is Curator's uncompressed().
func Uncompressed() CompressedOption { return CompressedOption{off: true} }

func (o CompressedOption) applyCreate(c *createConfig) error {
	return c.compression.choose(o.off, "Compressed and Uncompressed")
}

func (o CompressedOption) applySet(c *setConfig) error {
	return c.compression.choose(o.off, "Compressed and Uncompressed")
}

// DecompressedOption is returned by [Decompressed] and [Undecompressed].
type DecompressedOption struct{ off bool }

// Decompressed returns data that was stored with [Compressed], here or in Java. The read
// fails with [ErrCompression] if the data was stored otherwise, is damaged, or is too large
// when decompressed. A znode without data, such as a parent, yields nil. The limit is the
// provider's, for each znode: many such reads at once take so many times the memory. See
// [Framework.Decompress]. It is Curator's decompressed().
func Decompressed() DecompressedOption { return DecompressedOption{} }

// Undecompressed returns the data as it is stored, despite [WithCompression]. It is Curator's
// undecompressed().
func Undecompressed() DecompressedOption { return DecompressedOption{off: true} }

func (o DecompressedOption) applyGet(c *readConfig) error {
	return c.compression.choose(o.off, "Decompressed and Undecompressed")
}

// Decompress returns the data of a znode that was read without [Decompressed], as that option
// would. It sends nothing. With it a program that reads many znodes can decompress one after
// the other.
func (f *Framework) Decompress(path string, stored []byte) ([]byte, error) {
	return f.cfg.decompress(path, stored)
}

// CompressionOption is returned by [WithCompression].
type CompressionOption struct{}

// WithCompression stores the data of all znodes compressed and decompresses all data, as with
// [Compressed] and [Decompressed] at each call; [Uncompressed] and [Undecompressed] are the
// exceptions. It is an option of a client, and of a view with [Framework.UsingNamespace], whose
// client may be without it. A view of a client with it has it too. Default: off. It is Curator's
// enableCompression, since version 5.8.
//
// As in Curator it applies to recipes too: locks, elections, values, queues, caches and services
// then read and write all data compressed, even data that is empty. So all programs that share
// such znodes must have it, or none. What ZooKeeper itself writes, such as [Framework.Config], and
// parents that are created on the way are not compressed.
func WithCompression() CompressionOption { return CompressionOption{} }

//nolint:unparam // other options can fail
func (CompressionOption) apply(c *config) error { c.compressed = true; return nil }

//nolint:unparam // other options can fail
func (CompressionOption) applyView(f *Framework) error { f.compressed = true; return nil }

// CompressionEnabled reports whether [WithCompression] is on.
func (f *Framework) CompressionEnabled() bool { return f.compressed }
