// SPDX-License-Identifier: Apache-2.0

// Package shared has values that all processes see, together with their changes.
//
//	limit, err := shared.NewSharedCount(client, "/limits/orders", 10)
//	err = limit.Start(ctx)
//	defer limit.Close()
//
//	limit.OnChange(func(v shared.VersionedCount) { resize(v.Count) })
//	n, err := limit.Count() // from memory
//
// A [SharedValue] is a value of bytes, and a [SharedCount] is a 32-bit number. Each keeps a
// copy in memory that follows the znode, also over lost connections and sessions. They share
// their znodes, byte for byte, with Curator's classes of the same names.
//
// # What is promised
//
// The copy only moves forward, in the order of the transactions that have changed the znode
// (its mzxid). If the servers come back empty or from a backup, the copy takes the value that
// they have; see [framework.Framework.History]. The copy may lag behind the server by the
// delay of an event, and during an outage. A listener is called once for each value that the
// copy takes. It is not called when such servers come back with an equal value. A value that
// was replaced before this process could read it is skipped. The last value is never skipped.
//
// A conditional change, such as TrySetValue, is applied at most once. If its reply was lost
// and the value has changed again, [framework.OutcomeUnknown] is true for its error. As in
// Curator, the server compares the version alone. If the znode is deleted, created again and
// written as often as before, before this process has seen it, the change takes it for the old znode.
package shared
