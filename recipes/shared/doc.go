// Package shared has values that all processes see, together with their changes.
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
// The copy only goes forward, in the order of the transactions that have changed the znode
// (its mzxid). It may be behind the server for as long as an event takes, and during an
// outage. A listener is called once with each value that the copy takes. A value that was
// replaced before this process could read it is left out; the last value never is.
//
// A conditional change, such as TrySetValue, is applied at most once. If its reply was lost
// and the value has changed again, [framework.OutcomeUnknown] is true for its error.
package shared
