// SPDX-License-Identifier: Apache-2.0

// Package conduit is the connection that go-zookeeper is given.
//
// go-zookeeper keeps the session: it dials, shakes hands, pings, reconnects
// with the session's password and closes. Between it and the socket stands a
// net.Conn of ours that understands frames, and every request of the framework
// travels through that net.Conn too, on the same session and in one stream with
// go-zookeeper's own. This gives what go-zookeeper v1.0.4 cannot:
//
//   - a context for every request, without a goroutine for every request;
//   - the truth about a request that failed: it was never sent, or it may have
//     been applied ([ErrNotSent], [ErrUnanswered]);
//   - requests that are bound to one session and never run in the next one;
//   - the opcodes go-zookeeper lacks, and several requests in one write;
//   - the lease clock: the send time of the newest request that the server has
//     acknowledged, from which follows how long the session is certain to live;
//   - a wall: no bytes from a server can crash go-zookeeper or bloat the process.
//
// # What it assumes of go-zookeeper v1.0.4
//
// Each frame is exactly one Write. The first Write of a connection is the
// connect request. Pings carry xid -2, all its other requests positive xids, so
// that xids at or below -1000 are ours. A connection is closed with Close,
// except after "session expired", when it is forgotten: there the conduit closes
// it. A test pins each of these.
//
// # The order of things
//
// A server answers the requests of one connection strictly in order. The conduit
// keeps the requests it has written in a queue and takes any reply that is not
// for the head of that queue as proof of a broken connection, which it cuts. A
// lost reply is therefore noticed with the next reply, at the latest with the reply
// to the next ping. Only credentials are answered out of this order, by the server's
// reading thread. They go out in front of the first request of ours, so a reply to that
// request before theirs also proves that the connection is broken.
//
// [Events] are called in the order of the stream: a notification before every
// reply that follows it, Disconnected after every reply that was read and before
// the requests that will never be answered fail. They are called one at a time
// and must not block. A write that fails ends the connection at once: replies that
// have not been read by then never are.
//
// go-zookeeper never sees a reply to our requests, nor a notification. It sees
// its own handshake, pings and close, each rebuilt by the conduit from the fields
// that were checked.
package conduit
