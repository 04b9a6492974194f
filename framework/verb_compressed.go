package framework

// CompressedOption is returned by [Compressed].
type CompressedOption struct{}

// Compressed stores the data compressed. The size limit of requests applies to the
// compressed data. It is Curator's compressed().
func Compressed() CompressedOption { return CompressedOption{} }

//nolint:unparam // other options can fail
func (CompressedOption) applyCreate(c *createConfig) error { c.compressed = true; return nil }

//nolint:unparam // other options can fail
func (CompressedOption) applySet(c *setConfig) error { c.compressed = true; return nil }

// DecompressedOption is returned by [Decompressed].
type DecompressedOption struct{}

// Decompressed returns data that was stored with [Compressed], here or in Java. The read
// fails with [ErrCompression] if the data was stored otherwise, is damaged, or is too large
// when decompressed. A znode without data, such as a parent, yields nil. The limit is the
// provider's, for each znode: many such reads at once take so many times the memory. See
// [Framework.Decompress]. It is Curator's decompressed().
func Decompressed() DecompressedOption { return DecompressedOption{} }

func (DecompressedOption) applyGet(c *readConfig) error { c.decompressed = true; return nil }

// Decompress returns the data of a znode that was read without [Decompressed], as that option
// would. It sends nothing. With it a program that reads many znodes can decompress one after
// the other.
func (f *Framework) Decompress(path string, stored []byte) ([]byte, error) {
	return f.cfg.decompress(path, stored)
}
