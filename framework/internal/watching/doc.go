// SPDX-License-Identifier: Apache-2.0

// Package watching is the registry of a client's watches. It decides which watches to set at
// the server, and which watch each event, reply and loss of the connection concerns. It needs
// no client, only a function that sends requests.
//
// # One watch at the server
//
// A server keeps one watch for each path and [Kind], however many a client wants. The
// registry therefore counts the users of each, and removes the server's watch with the last
// user. Before ZooKeeper 3.9 a server also has one mode for each of them. Setting or removing
// a one-shot watch silently ends a persistent watch on the same path, and the later of two
// modes replaces the earlier (ZOOKEEPER-4466). So a path with persistent watches has a single
// watch at the server, which serves all users of the path, one-shot ones included.
//
// A read that was under way may replace the persistent watch with its reply. Then the registry
// sets the persistent watch again, even if only one-shot watches are left, because they count on
// it too. A one-shot watch that needed it in between ends without an event, so its owner reads
// again. The registry removes a watch at the server under its lock, so that the order on the wire
// is the order of decisions.
//
// # The life of a one-shot watch
//
//	Begin            waiting: its request is about to be sent
//	reply            armed: in stream order, so that it sees exactly the later events
//	event            ended, if it was armed; a request answered later has set the server's watch again
//	failure          forgotten
//	Cancel           forgotten: at once if it was armed, with the reply if not
//	connection lost  ended, with zk.EventNotWatching
//
// # The life of a persistent watch
//
//	Begin            waiting: its request is about to be sent
//	reply            armed, or forgotten if it was refused
//	event            passed on, as long as the path is armed
//	connection lost  waiting again, for the next connection
//	new connection   set again with setWatches2, then told to read again ([Resync])
//	refused          ended, when a server does not set it again
//	Cancel, Close    ended
//
// The functions that report the stream (the results of Begin, OnConnected, OnNotified,
// OnDisconnected) must be called in the order of the stream, one at a time.
package watching
