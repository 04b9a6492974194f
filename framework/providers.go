// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/listen"
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

// closeNotifyLimit bounds how long closing a TLS connection waits for a server that does
// not read.
const closeNotifyLimit = 100 * time.Millisecond

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

// EnsembleProvider returns the addresses of the servers. It is Curator's EnsembleProvider.
//
// [New] calls it once. The client calls it again before each round of attempts to connect,
// and after each notification of the provider. It also calls it after it has connected to a
// server that is not in the list. A round tries each address of each server once; a lost
// connection begins a new round. The answer is a connection string as for New. The first
// answer determines the chroot: a later answer must have the same chroot, or none.
//
// A later answer that does not parse, or that has another chroot, is logged and otherwise
// ignored.
//
// A provider may also have a method OnChange(fn func()) *listen.Registration, as
// [DynamicEnsembleProvider] has: it adds a function that is called after every change. The
// client removes its function when it is closed. A change that is reported takes effect at
// once: a client that is trying to connect to another server gives that up. If the server of
// the connection is certainly gone, by name and by address, the client cuts the connection and
// makes another one in the same session. Otherwise the connection stays; unlike Java's client,
// this one does not move it to spread the load.
type EnsembleProvider interface {
	// ConnectionString returns the current connection string. It is called from several
	// goroutines, must not block and must not use the client. Do slow lookups in advance.
	ConnectionString() string
}

// FixedEnsembleProvider is a connection string that never changes. [New] uses it for its
// argument.
type FixedEnsembleProvider string

// ConnectionString returns the string itself.
func (p FixedEnsembleProvider) ConnectionString() string { return string(p) }

// DynamicEnsembleProvider is an [EnsembleProvider] whose connection string can be set
// while clients use it. It serves any number of clients. In Curator every provider has
// setConnectionString.
type DynamicEnsembleProvider struct {
	changed listen.Set[struct{}]

	mu  sync.Mutex // guards now
	now string
}

// NewDynamicEnsembleProvider returns a provider that returns connectString until another
// one is set.
func NewDynamicEnsembleProvider(connectString string) (*DynamicEnsembleProvider, error) {
	if _, _, err := parseConnectString(connectString); err != nil {
		return nil, err
	}
	return &DynamicEnsembleProvider{now: connectString}, nil
}

// ConnectionString returns the connection string that was set last.
func (p *DynamicEnsembleProvider) ConnectionString() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// SetConnectionString changes the connection string. It returns at once, before any
// client has acted on the change. If the string does not parse, it returns an error and
// changes nothing.
func (p *DynamicEnsembleProvider) SetConnectionString(connectString string) error {
	if _, _, err := parseConnectString(connectString); err != nil {
		return err
	}
	p.mu.Lock()
	p.now = connectString
	p.mu.Unlock()
	p.changed.Notify(struct{}{})
	return nil
}

// OnChange adds a function that is called on a goroutine of its own after every
// [DynamicEnsembleProvider.SetConnectionString]. It panics if fn is nil.
func (p *DynamicEnsembleProvider) OnChange(fn func()) *listen.Registration {
	if fn == nil {
		return p.changed.Add(nil) // panics here, where the caller's mistake shows
	}
	return p.changed.Add(func(struct{}) { fn() })
}

// Stat is a znode's metadata, as defined by ZooKeeper's data model: Czxid, Version,
// EphemeralOwner and so on. It is go-zookeeper's type.
type Stat = zk.Stat

// AnyVersion makes a versioned verb accept any version of the znode.
const AnyVersion int32 = -1

// ACL is one entry of a znode's access control list: permissions for an identity. It is
// go-zookeeper's type.
type ACL = zk.ACL

// The permissions of an [ACL], as bits.
const (
	PermRead   = zk.PermRead   // read the data and the list of children
	PermWrite  = zk.PermWrite  // set the data
	PermCreate = zk.PermCreate // create children
	PermDelete = zk.PermDelete // delete children
	PermAdmin  = zk.PermAdmin  // set the access control list
	PermAll    = zk.PermAll
)

// OpenACL returns the list that permits everything to every client. It is ZooKeeper's
// OPEN_ACL_UNSAFE.
func OpenACL() []ACL { return zk.WorldACL(zk.PermAll) }

// ReadACL returns the list that permits every client to read. It is ZooKeeper's
// READ_ACL_UNSAFE.
func ReadACL() []ACL { return zk.WorldACL(zk.PermRead) }

// CreatorAllACL returns the list that permits everything to the client that creates the
// znode. The client must have an identity, as by [WithAuth] or [WithSASL]. It is ZooKeeper's
// CREATOR_ALL_ACL.
func CreatorAllACL() []ACL { return zk.AuthACL(zk.PermAll) }

// DigestACL returns the list that permits something to a user with a password, as a client
// presents them by [WithAuth] with the scheme "digest". The list has a hash of both.
func DigestACL(perms int32, user, password string) []ACL { return zk.DigestACL(perms, user, password) }

// Identity is an identity of a connection. Servers compare it with the entries of an [ACL].
type Identity struct {
	Scheme string // such as "sasl", "digest" or "ip"
	ID     string // for "digest", the user without the password
}

// String returns scheme and id, with a colon between them.
func (i Identity) String() string { return i.Scheme + ":" + i.ID }
