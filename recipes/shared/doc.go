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
// [SharedValue] is bytes and [SharedCount] a 32-bit number. Each keeps a copy in
// memory that follows the znode, over lost connections and sessions too. They
// share their znodes, byte for byte, with Curator's classes of the same names.
//
// # What is promised
//
// The copy only moves forward, in the order of the transactions that have changed the znode
// (its mzxid). If the servers come back empty or from a backup, it takes what they have then;
// see [framework.Framework.History]. It may lag behind the server by the delay of an event, and during an outage.
// A listener is called once for each value that the copy takes, and not for an equal value of
// such servers. Values that were replaced
// before this process could read them are skipped; the last value never is.
//
// A conditional change, such as TrySetValue, is applied at most once. If its reply was lost
// and the value has changed again, [framework.OutcomeUnknown] is true for its error.
package shared
