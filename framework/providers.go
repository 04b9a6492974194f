// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// ACLProvider returns the access control lists of new znodes. Its methods are called for
// every creation, including parents and the znodes of recipes, from several goroutines at
// once. They must not block.
type ACLProvider interface {
	// DefaultACL returns the list for znodes for which ACLForPath returns none, and for the
	// znodes of the connection string's chroot. An empty list permits everything to all
	// clients.
	DefaultACL() []ACL

	// ACLForPath returns the list for the znode with this path. The path includes the
	// namespace but not the chroot, and not the prefix or the number that [WithProtection] or
	// a sequential mode adds. An empty list means DefaultACL.
	ACLForPath(path string) []ACL
}

// WithACLProvider sets the provider of the access control lists of new znodes without
// [WithACL]. Default: every client may do everything.
func WithACLProvider(p ACLProvider) Option {
	return clientOption{"WithACLProvider", func(c *config) error {
		if p == nil {
			return errors.New("ACL provider nil, expected one")
		}
		c.acl = p
		return nil
	}}
}

// worldACL is shared: it is only encoded, or copied.
var worldACL = OpenACL()

// defaultACL returns the list for a new znode without one of its own, given its path at the
// server.
func (c *config) defaultACL(full string) []ACL {
	if c.acl == nil {
		return worldACL
	}
	var acl []ACL
	// The provider knows paths below the chroot only.
	if root := c.root; root == "" || isBelow(full, string(root)) && full != string(root) {
		acl = c.acl.ACLForPath(root.own(full))
	}
	if len(acl) == 0 {
		acl = c.acl.DefaultACL()
	}
	if len(acl) == 0 {
		acl = OpenACL()
	}
	return acl
}

// defaultMaxDecompressedSize bounds the size of one znode's data after decompression: a
// thousand bytes of gzip can expand to a million.
const defaultMaxDecompressedSize = 16 << 20

// ErrCompression reports data that could not be compressed or decompressed, or that
// would become larger than the provider allows.
var ErrCompression = errors.New("compression failed")

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

// WithCompressionProvider sets the provider that [Compressed], [Decompressed] and [WithCompression] use.
// Default: [GzipCompressionProvider].
func WithCompressionProvider(p CompressionProvider) Option {
	return clientOption{"WithCompressionProvider", func(c *config) error {
		if p == nil {
			return errors.New("compression provider nil, expected one")
		}
		c.compression = p
		return nil
	}}
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

type compressedOption optionSet

// Compressed stores the data compressed. The size limit of requests applies to the
// compressed data. It is Curator's compressed().
func Compressed() interface {
	CreateOption
	SetOption
} {
	return compressedOption(compressed)
}

// Uncompressed stores the data as it is, despite [WithCompression]. It is Curator's uncompressed().
func Uncompressed() interface {
	CreateOption
	SetOption
} {
	return compressedOption(uncompressed)
}

func (o compressedOption) add(c *common) error {
	return c.choose(optionSet(o), (compressed|uncompressed)&^optionSet(o))
}

func (o compressedOption) applyCreate(c *createConfig) error { return o.add(&c.common) }
func (o compressedOption) applySet(c *setConfig) error       { return o.add(&c.common) }

type decompressedOption optionSet

// Decompressed returns data that was stored with [Compressed], here or in Java. The read
// fails with [ErrCompression] if the data was stored otherwise, is damaged, or is too large
// when decompressed. A znode without data, such as a parent, yields nil. The limit is the
// provider's, for each znode: many such reads at once take so many times the memory. See
// [Framework.Decompress]. It is Curator's decompressed().
func Decompressed() ReadOption { return decompressedOption(decompressed) }

// Undecompressed returns the data as it is stored, despite [WithCompression]. It is Curator's
// undecompressed().
func Undecompressed() ReadOption { return decompressedOption(undecompressed) }

func (o decompressedOption) applyRead(c *readConfig) error {
	return c.choose(optionSet(o), (decompressed|undecompressed)&^optionSet(o))
}

// Decompress returns the data of a znode that was read without [Decompressed], as that option
// would. It sends nothing. With it a program that reads many znodes can decompress one after
// the other.
func (f *Framework) Decompress(path string, stored []byte) ([]byte, error) {
	return f.cfg.decompress(path, stored)
}

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
func WithCompression() Option { return compressionOption{} }

// compressionOption is an option of clients and of views.
type compressionOption struct{}

func (compressionOption) name() string { return "WithCompression" }

func (compressionOption) apply(c *config) error { c.compressed = true; return nil }

func (compressionOption) applyView(f *Framework) { f.compressed = true }

// CompressionEnabled reports whether [WithCompression] is on.
func (f *Framework) CompressionEnabled() bool { return f.compressed }

// closeNotifyLimit bounds how long closing a TLS connection waits for a server that does
// not read.
const closeNotifyLimit = 100 * time.Millisecond

// WithTLS encrypts every connection; the connection string must name the servers'
// secureClientPort. The handshake is part of the attempt to connect, and bounded with it. An
// empty ServerName means each server's host as in the connection string. The configuration
// is copied. For settings that change while the client runs, such as a renewed client
// certificate, use its callbacks (GetClientCertificate), which every connection calls.
//
// A call that waits for a connection includes the failure of the newest attempt in its
// error. [errors.As] finds it there, for instance a [*tls.CertificateVerificationError].
// With [WithDialer], TLS runs on the dialer's connections.
func WithTLS(cfg *tls.Config) Option {
	return clientOption{"WithTLS", func(c *config) error {
		if cfg == nil {
			return errors.New("TLS configuration nil, expected a *tls.Config")
		}
		c.tls = cfg.Clone()
		return nil
	}}
}

// overTLS returns a dialer that makes TLS connections on top of another dialer's.
func overTLS(dial Dialer, cfg *tls.Config) Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, configFor(cfg, address))
		if err := conn.HandshakeContext(ctx); err != nil {
			// The handshake's error is what matters.
			_ = raw.Close()
			if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
				return nil, fmt.Errorf("TLS handshake: %w (is it a port without TLS?)", err)
			}
			return nil, fmt.Errorf("TLS handshake: %w", err)
		}
		return tlsConn{conn}, nil
	}
}

// configFor returns the configuration with the name of the server.
func configFor(cfg *tls.Config, address string) *tls.Config {
	host, _, err := net.SplitHostPort(address)
	if err != nil || cfg.ServerName != "" {
		return cfg // the program knows the name in the certificates better
	}
	cfg = cfg.Clone()
	cfg.ServerName = host
	return cfg
}

// tlsConn is a TLS connection whose Close does not wait for the other side.
type tlsConn struct{ *tls.Conn }

func (c tlsConn) Close() error {
	cut := time.AfterFunc(closeNotifyLimit, func() {
		// Close itself returns the error that this leads to.
		_ = c.NetConn().Close()
	})
	defer cut.Stop()
	return c.Conn.Close()
}

// WithAuth presents a credential to every server, on every connection, before any
// request of the client is processed. For scheme "digest" the credential is
// "user:password"; other schemes need a provider at the servers. Several WithAuth add
// several identities. The credential is copied, and never appears in a log, an error or
// the output of fmt. It is Curator's authorization.
//
// A credential is not encrypted: without [WithTLS] it crosses the network in the clear.
//
// If a server refuses a credential, the client ends, because no later attempt could
// succeed: the state becomes [Lost], all holds end with [ReasonAuthFailed], every watch
// ends, every call fails with [ErrAuthFailed], and no further connection is made. ZooKeeper
// refuses a scheme without a provider, but never a digest: a wrong password shows only as
// an [ErrNoAuth] from a znode that requires the right one.
func WithAuth(scheme string, credential []byte) Option {
	return clientOption{"WithAuth", func(c *config) error {
		if scheme == "" {
			return errors.New(`auth scheme "", expected one such as "digest"`)
		}
		c.auth = append(c.auth, conduit.Auth{Scheme: scheme, Credential: conduit.Hide(credential)})
		return nil
	}}
}

// awaitAccess waits for a connection whose server has accepted the credentials.
func (f *Framework) awaitAccess(ctx context.Context) error {
	if err := f.BlockUntilConnected(ctx); err != nil || len(f.cfg.auth) == 0 {
		return err // without credentials there is nothing to be refused
	}
	// The reply to any request, a refusal too, comes after those to the credentials.
	if _, err := f.Exists(ctx, "/"); err != nil && !errors.Is(err, ErrNoAuth) {
		return fmt.Errorf("framework: presenting the credentials: %w", reasonOf(err))
	}
	return nil
}
