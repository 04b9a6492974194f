// SPDX-License-Identifier: Apache-2.0

package framework

import "github.com/go-zookeeper/zk"

// Stat is a znode's metadata, as defined by ZooKeeper's data model: Czxid, Version,
// EphemeralOwner and so on. It is go-zookeeper's type.
type Stat = zk.Stat

// ACL is one entry of a znode's access control list. It is go-zookeeper's type;
// its helpers such as zk.WorldACL and zk.DigestACL build one.
type ACL = zk.ACL

// AnyVersion makes a versioned verb accept any version of the znode.
const AnyVersion int32 = -1
