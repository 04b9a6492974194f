// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"sync/atomic"

	"github.com/gocurator/curator/framework/internal/wire"
)

// seen is what the client has seen of the ensemble's transactions, over all connections.
// A server that is behind that must not answer.
type seen struct {
	newest atomic.Int64 // the newest transaction that any reply or event has named

	// unproved is set while an event has come whose transaction is unknown, and no reply
	// has followed it. See catchUp.
	unproved atomic.Bool

	// history rises when the servers may not go on from what was seen.
	history atomic.Int64

	// resumed is set from the beginning of a connection until a transaction is named on it.
	resumed atomic.Bool
}

// event records the transaction of a watch event. Servers name it since ZooKeeper 3.9.
func (s *seen) event(zxid int64) {
	if zxid > 0 {
		s.reply(zxid)
		return
	}
	s.unproved.Store(true)
}

// reply records the transaction that a reply names.
func (s *seen) reply(zxid int64) {
	if zxid > 0 && s.resumed.Load() {
		s.resumed.Store(false)
		if before := s.newest.Load(); before != 0 && (epoch(before) != epoch(zxid) || zxid < before) {
			s.history.Add(1) // before any reply of the connection reaches its caller
			s.newest.Store(zxid)
			return
		}
	}
	for {
		newest := s.newest.Load()
		if zxid <= newest || s.newest.CompareAndSwap(newest, zxid) {
			return
		}
	}
}

// epoch returns the number of the leader that has made a transaction. A restored ensemble
// elects another leader, whose transactions all have greater numbers than the lost ones. So
// by the numbers alone its servers are not behind.
func epoch(zxid int64) int64 { return zxid >> 32 }

// forget is called when earlier reads no longer count.
func (s *seen) forget() {
	s.newest.Store(0)
	s.unproved.Store(false)
	s.history.Add(1)
}

// refused is called when a server has hung up instead of answering a handshake. Like a
// restored server, it may have been behind the client, and it may have caught up by the
// next time.
func (s *seen) refused() { s.history.Add(1) }

// catchUp returns the first request of a connection whose predecessor ended between an
// event and the next reply. Servers before ZooKeeper 3.9 do not name the transaction of an
// event. So the connect request could not name it either, and this server may be behind.
//
// The request is a transaction that changes nothing. Unlike a sync it is committed by a
// majority, so it comes after the transaction of the event. The server answers later
// requests only once it has applied both. Whether it succeeds does not matter, but a server
// that throttles it commits nothing, and costs the connection.
func catchUp() *Call {
	e := wire.NewEncoder(64)
	e.MultiOp(wire.OpCheck)
	e.String("/")
	e.Int32(-1) // any version
	e.MultiEnd()
	return &Call{Op: wire.OpMulti, Body: e.Bytes(), catchesUp: true}
}
