// SPDX-License-Identifier: Apache-2.0

// Package conduit is the connection that go-zookeeper is given.
//
// go-zookeeper keeps the session: it dials, shakes hands, pings, reconnects with the
// session's password and closes. This package gives it a net.Conn that understands
// frames. Every request of the framework travels through that net.Conn too, on the
// same session and in one stream with go-zookeeper's own requests. go-zookeeper
// v1.0.4 alone has none of these:
//
//   - a context for every request, without a goroutine for every request;
//   - the truth about a request that failed: it was never sent, or it may have
//     been applied ([ErrNotSent], [ErrUnanswered]);
//   - requests that are bound to one session and never run in the next one;
//   - the opcodes go-zookeeper lacks, and several requests in one write;
//   - the lease clock, which says how long the session is certain to live, by the
//     send time of the newest request that the server has acknowledged;
//   - a check of all bytes from a server, so that none can crash go-zookeeper or
//     bloat the process.
//
// # What it assumes of go-zookeeper v1.0.4
//
// Each frame is exactly one Write. The first Write of a connection is the connect
// request. Pings carry xid -2, all its other requests positive xids, so that xids at
// or below -1000 are ours. go-zookeeper closes a connection with Close, except after
// "session expired". There it forgets the connection, and the conduit closes it. A
// test pins each of these assumptions.
//
// # The order of things
//
// A server answers the requests of one connection strictly in order. The conduit
// keeps the requests that it has written in a queue. A reply that is not for the
// head of the queue proves that the connection is broken, and the conduit cuts it.
// So the next reply reveals a lost one, at the latest the reply to the next ping.
// Only credentials are answered out of this order, by the server's reading thread.
// They go out before the first request of the framework. So a reply to that request
// before their answers also proves that the connection is broken.
//
// [Events] are called in the order of the stream: a notification before every reply
// that follows it, Disconnected after every reply that was read and before the
// requests that will never be answered fail. They are called one at a time and must
// not block. A write that fails ends the connection at once. Replies that have not
// been read by then are lost.
//
// A reply proves that the session lives; a notification does not, because notifications come
// even when the other direction is dead. The client cuts the connection after two thirds of the
// session timeout without such a sign. The end of the session is the last request of a
// connection. Bytes that arrived after it would make the server reset the connection, and the
// answer might be lost.
//
// go-zookeeper never sees a reply to our requests, nor a notification. It sees
// its own handshake, pings and close, each rebuilt by the conduit from the fields
// that were checked.
//
// # Reads that share a request
//
// A request costs a server more than a read in it. So reads that are next to each other in the
// queue share a multiRead of ZooKeeper 3.6. A reply comes as a whole, and later replies wait behind
// it. So a request takes as many reads as fit into 32 KB, judged by recent replies. If the reply is
// too long all the same, each read is sent again, alone, behind later reads of its pipeline.
// [OutOfOrder] reports that, and the pipeline is read once more. A server cuts the connection at a
// request that it does not know, so reads are joined only if the server has told its version. It is
// asked over a connection of its own, and no read waits for the answer.
//
// # SASL
//
// The exchange follows the handshake. It runs on a goroutine of its own, because a mechanism may
// ask a KDC. Until it is complete the connection takes no calls and does not count as connected,
// so a client that is refused does not flap between states. The lease counts from the handshake,
// as it does at the server. The receiving goroutine judges refusals, because elsewhere the end of
// the connection would hide them. An exchange may take two thirds of what is left of the session,
// so that the next server gets a third.
//
// # Histories
//
// Servers that come back empty or from a backup number their transactions again. Equal numbers may
// then stand for different data. So all that a client knows belongs to a history. It ends when the
// client stops naming the newest transaction that it has seen: with the lease and with the session.
// Within a session two signs end it, too. A restored ensemble elects a leader, so its first reply
// is of another epoch. And a server that hangs up on a handshake may have been behind the client,
// and may catch up before the next attempt. Most such ends are false alarms, and cost a comparison
// of data.
//
// A sign must be seen before a write can meet the servers. So a connection that goes on with a
// session first sends a ping. The reply names the newest transaction of the server. The connection
// takes no call before that. A ping needs no permission and no path, and servers do not throttle
// it.
//
// Restored servers may have ephemeral znodes that the session had deleted. The lock of a turn that
// has ended would then stay locked for as long as the process runs. So the client compares the
// ephemeral znodes that it knows with the server's list. If the server has more, the client ends
// the session. To delete them again would take a rule for each recipe. The end of the session is
// one rule for all: what came back goes, holds are lost and say so, and members come again in the
// next session.
package conduit
