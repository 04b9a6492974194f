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
// go-zookeeper never sees a reply to our requests, nor a notification. It sees
// its own handshake, pings and close, each rebuilt by the conduit from the fields
// that were checked.
package conduit
