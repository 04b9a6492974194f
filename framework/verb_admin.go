// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework/internal/wire"
)

// GetACL returns the access control list of a znode. It needs permission to read or to
// administer the znode; the server shows password hashes only with the latter.
func (f *Framework) GetACL(ctx context.Context, path string, opts ...ReadOption) ([]ACL, error) {
	var acl []ACL
	var calls []*call
	cfg, err := newReadConfig(opts, ofGetACL, "GetACL")
	if err == nil {
		calls, err = pathCall(f.root, opGetACL, path, func(d wire.Decoder) error {
			read := d.ACL()
			stat := d.Stat()
			if d.Err() == nil {
				acl = read
			}
			cfg.storeStat(&d, stat)
			return d.Err()
		})
	}
	err = f.run(ctx, opGetACL, path, plan{common: cfg.common, calls: calls}, err)
	return acl, err
}

// ofSetACL are the options that SetACL takes.
const ofSetACL = ofEveryCall | withVersion | storingStatIn

// SetACL replaces the access control list of a znode. It needs permission to administer the
// znode. [WithVersion] compares the version of the list, Stat.Aversion, not the version of
// the data. [Idempotent] and [Compressed] are refused. It is not repeated after a try whose
// outcome is unknown.
func (f *Framework) SetACL(ctx context.Context, path string, acl []ACL, opts ...SetOption) error {
	full := ""
	cfg, err := newSetConfig(opts)
	if err == nil {
		err = cfg.given.only(ofSetACL, "SetACL")
	}
	if err == nil {
		full, err = f.root.writable(path)
	}
	var e wire.Encoder
	e.String(full)
	e.ACL(acl)
	e.Int32(cfg.version)
	decode := func(d wire.Decoder) error { cfg.storeStat(&d, d.Stat()); return d.Err() }
	calls := []*call{{operation: opSetACL, path: path, body: e.Bytes(), decode: decode}}
	return f.run(ctx, opSetACL, path, plan{common: cfg.common, calls: calls}, err)
}

// configPath is the znode with the ensemble's configuration, outside of any chroot.
const configPath = reserved + "/config"

// Config returns the configuration of the ensemble as ZooKeeper writes it. It has a line
// "server.1=host:port:port:participant;port" for each server, and a last line "version=" with a
// number in hexadecimal. A standalone server has none, or an empty one. Config takes the options
// of Get. It is Curator's getConfig().
func (f *Framework) Config(ctx context.Context, opts ...ReadOption) ([]byte, error) {
	var data []byte
	read := ReadData(configPath, &data, opts...)
	build := read.build
	read.build = func(f *Framework) (*call, error) { return build(f.unrooted()) }
	err := f.Pipeline(ctx, read)
	return data, err
}

// Reconfiguration is a change of the servers of an ensemble, for [Framework.Reconfig]. It has
// either Members, or Joining, Leaving or both.
type Reconfiguration struct {
	// Joining are servers to add, each in the form "5=host:2888:3888:observer;2181". A server
	// with the number of another one replaces it.
	Joining []string

	// Leaving are the numbers of servers to remove.
	Leaving []string

	// Members replace all servers.
	Members []string

	// From is the version that the current configuration must have. 0 is any: the
	// configuration of a running ensemble has a version above it.
	From int64
}

// Reconfig changes the servers of the ensemble and returns the new configuration. It needs
// servers with reconfigEnabled=true and permission to write /zookeeper/config. It is not
// repeated after a try whose outcome is unknown. It is Curator's reconfig().
func (f *Framework) Reconfig(ctx context.Context, change Reconfiguration, opts ...CallOption) ([]byte, error) {
	var data []byte
	cfg, err := newCommon(opts)
	if err == nil {
		err = change.validate()
	}
	calls := []*call{{
		operation: opReconfig, path: configPath, body: change.encode(),
		decode: func(d wire.Decoder) error {
			config := d.Buffer()
			if d.Stat(); d.Err() == nil {
				data = config
			}
			return d.Err()
		},
	}}
	err = f.run(ctx, opReconfig, configPath, plan{common: cfg, calls: calls}, err)
	return data, err
}

func (c *Reconfiguration) validate() error {
	for _, s := range slices.Concat(c.Joining, c.Leaving, c.Members) {
		// The servers go out as one list with commas, where a slip would name another server.
		if s == "" || strings.ContainsAny(s, ",\n") {
			return fmt.Errorf("%w: server %q, expected one server without a comma", ErrInvalidOption, s)
		}
	}
	switch changes := len(c.Joining) + len(c.Leaving); {
	case c.From < 0:
		return fmt.Errorf("%w: a Reconfiguration from version %d, expected a version, or 0 for any", ErrInvalidOption, c.From)
	case changes == 0 && len(c.Members) == 0:
		return fmt.Errorf("%w: a Reconfiguration without Joining, Leaving or Members, expected one of them", ErrInvalidOption)
	case changes > 0 && len(c.Members) > 0:
		return fmt.Errorf("%w: a Reconfiguration with Members together with Joining or Leaving, expected one kind of change", ErrInvalidOption)
	default:
		return nil
	}
}

func (c *Reconfiguration) encode() []byte {
	var e wire.Encoder
	for _, servers := range [][]string{c.Joining, c.Leaving, c.Members} {
		if len(servers) == 0 {
			e.Int32(-1) // the null string
			continue
		}
		e.String(strings.Join(servers, ","))
	}
	from := c.From
	if from == 0 {
		from = -1 // any
	}
	e.Int64(from)
	return e.Bytes()
}

// Ephemerals returns the paths of the ephemeral znodes of this client's session at or below
// path, sorted. It needs ZooKeeper 3.6 and fails with [ErrUnsupported] on an older server.
func (f *Framework) Ephemerals(ctx context.Context, path string, opts ...CallOption) ([]string, error) {
	var found []string
	decode := func(d wire.Decoder) error { found = d.Strings(); return d.Err() }
	if err := f.ask(ctx, opEphemerals, path, opts, decode); err != nil {
		return nil, err
	}
	// The server compares prefixes of strings: /a also finds /ab.
	full := f.root.full(path)
	found = slices.DeleteFunc(found, func(p string) bool { return !isBelow(p, full) })
	for i, p := range found {
		found[i] = f.root.own(p)
	}
	slices.Sort(found)
	return found, nil
}

// WhoAmI asks the server for the identities of this connection: by [WithSASL], by [WithAuth],
// by a certificate of [WithTLS], and the address of the client. They are in no particular order. It
// needs ZooKeeper 3.7, and fails with [ErrUnsupported] on an older server, or on one that does not
// report its version. It is Java's whoAmI.
func (f *Framework) WhoAmI(ctx context.Context, opts ...CallOption) ([]Identity, error) {
	var found []Identity
	cfg, err := newCommon(opts)
	if err := f.run(ctx, opWhoAmI, "", plan{common: cfg, calls: []*call{whoCall(&found)}}, err); err != nil {
		return nil, err
	}
	return found, nil
}

// whoCall asks for the identities of the connection.
func whoCall(found *[]Identity) *call {
	return &call{operation: opWhoAmI, decode: func(d wire.Decoder) error {
		*found = nil
		for range d.Count(2 * wire.LengthSize) {
			*found = append(*found, Identity{Scheme: d.String(), ID: d.String()})
		}
		return d.Err()
	}}
}

// learnIdentities asks for the identities of a new connection, for [Framework.Health]. That they are not known is no
// failure: the server may be too old, or the connection has ended.
func (f *Framework) learnIdentities(l *linked) {
	var found []Identity
	if err := f.exchange(l.ctx, whoCall(&found)); err == nil {
		l.identities.Store(&found)
	}
}
