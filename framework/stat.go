// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"

	"github.com/go-zookeeper/zk"
)

// Stat is a znode's metadata, as defined by ZooKeeper's data model: Czxid, Version,
// EphemeralOwner and so on. It is go-zookeeper's type.
type Stat = zk.Stat

// ACL is one entry of a znode's access control list. It is go-zookeeper's type;
// its helpers such as zk.WorldACL and zk.DigestACL build one.
type ACL = zk.ACL

// AnyVersion makes a versioned verb accept any version of the znode.
const AnyVersion int32 = -1

// StatOption is returned by [StoringStatIn].
type StatOption struct{ stat *Stat }

// StoringStatIn stores the znode's Stat at the time the request was applied. It is
// Curator's storingStatIn.
func StoringStatIn(stat *Stat) StatOption { return StatOption{stat} }

func (o StatOption) store(into **Stat) error {
	if o.stat == nil {
		return errors.New("StoringStatIn(nil), expected a *Stat")
	}
	*into = o.stat
	return nil
}

// VersionOption is returned by [WithVersion].
type VersionOption int32

// WithVersion applies the write only to a znode whose data has this version, and
// fails with [ErrBadVersion] otherwise. Default: [AnyVersion].
func WithVersion(version int32) VersionOption { return VersionOption(version) }
