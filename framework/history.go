package framework

// History returns the number of the history of the servers that the client reads. Servers that
// come back empty, or from a backup, number their transactions again. So two Stats can be
// compared by Czxid, Mzxid, Pzxid, Version or any other number only within one history, and
// tokens too. Equal numbers of two histories may stand for different data, and a lower number
// may be the newer one. Compare the data then.
//
//	history := client.History()
//	data, err := client.Get(ctx, path, framework.StoringStatIn(&stat))
//	if client.History() != history {
//		// The read may be of either: read again.
//	}
//	isKnown := history == known.history && stat.Mzxid == known.mzxid || bytes.Equal(data, known.data)
//
// The number is never 0. It rises whenever the servers have not proved that they go on from what the client has
// seen: with every [Session] after the first, with a connection on which another leader than
// before has made the newest transaction, and when a server has hung up on a reconnecting client
// instead of answering it. In most of these cases nothing was lost, and the comparison of the data
// finds that. Until then a reconnecting client names the newest transaction that it has seen, and a
// server that is behind it refuses the client.
//
// One case shows no sign: the servers come back within the session timeout, from a backup that has
// the session, and reach the newest transaction that the client has seen before the client tries to
// reconnect, under a leader with the same number or as a standalone server.
//
// A watch that was lost with its connection, or [EventResync], comes with every change of the
// number. So code that reads again then, and compares by this rule, misses nothing.
func (f *Framework) History() int64 { return f.conduit.History() }
