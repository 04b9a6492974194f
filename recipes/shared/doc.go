// Package shared has values that every process sees, and sees change.
//
//	limit, err := shared.NewSharedCount(client, "/limits/orders", 10)
//	err = limit.Start(ctx)
//	defer limit.Close()
//
//	limit.OnChange(func(v shared.VersionedCount) { resize(v.Count) })
//	n := limit.Count() // from memory
//
// [SharedValue] is bytes and [SharedCount] a 32-bit number. Each keeps a copy in
// memory that follows the znode, over lost connections and sessions too. They
// share their znodes, byte for byte, with Curator's classes of the same names.
//
// # What is promised
//
// The copy only ever goes forward, in the order of the transactions that have
// changed the znode (its mzxid). It may be behind the server by as long as an
// event takes, and in an outage by as long as that lasts. A listener is told of
// each value that the copy takes, once. A value that was replaced before this
// process could read it is left out; the one that stays is not.
//
// A change on condition, TrySet, is applied at most once. When its reply is
// lost, and the value has moved on, [framework.OutcomeUnknown] is true for its
// error.
package shared
