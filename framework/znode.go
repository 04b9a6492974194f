// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"time"

	"github.com/go-zookeeper/zk"
)

// Stat is a znode's metadata, as defined by ZooKeeper's data model: Czxid, Version,
// EphemeralOwner and so on. It is go-zookeeper's type.
type Stat = zk.Stat

// AnyVersion makes a versioned verb accept any version of the znode.
const AnyVersion int32 = -1

// CreateMode is the kind of a znode, with Curator's names and the protocol's values.
type CreateMode int32

// The seven kinds of znodes.
const (
	Persistent                  CreateMode = 0
	Ephemeral                   CreateMode = 1 // deleted with its session
	PersistentSequential        CreateMode = 2 // the server appends a number of ten digits
	EphemeralSequential         CreateMode = 3
	Container                   CreateMode = 4 // deleted by the server some time after its last child
	PersistentWithTTL           CreateMode = 5 // deleted by the server when unchanged for its time to live
	PersistentSequentialWithTTL CreateMode = 6
)

// maxTTL is the largest value that fits into ZooKeeper's 40 bits.
const maxTTL = (1<<40 - 1) * time.Millisecond

func (m CreateMode) isSequential() bool {
	return m == PersistentSequential || m == EphemeralSequential || m == PersistentSequentialWithTTL
}

func (m CreateMode) isEphemeral() bool { return m == Ephemeral || m == EphemeralSequential }

func (m CreateMode) hasTTL() bool { return m == PersistentWithTTL || m == PersistentSequentialWithTTL }

// operation returns the request that creates this kind. Only opCreateContainer
// makes containers: opCreate with the container's flag makes a persistent node.
func (m CreateMode) operation() operation {
	switch {
	case m == Container:
		return opCreateContainer
	case m.hasTTL():
		return opCreateTTL
	default:
		return opCreate
	}
}
