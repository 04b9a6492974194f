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
//	isKnown := stat.Mzxid == known.mzxid
//	if history != known.history {
//		isKnown = bytes.Equal(data, known.data)
//	}
//
// The number is never 0. It rises with every [Session] after the first. Within a session, a
// reconnecting client names the newest transaction that it has seen, and a server that is behind
// refuses the client. But restored servers can get past that transaction: under a leader of their
// own, or by the writes of other clients. So the number also rises when the first reply of a
// connection names a transaction of another leader than before. It rises as well when a server has
// hung up on the client instead of answering its handshake. In most of these cases nothing was lost, which a
// comparison of the data shows.
//
// One case shows no sign. The servers come back within the session timeout, from a backup that has
// the session. Their leader has the same number as before, or there is a single server. And they
// reach the newest transaction that the client has seen before the client tries to reconnect.
//
// The number changes with connections only. Each new connection ends the one-shot watches, and
// brings an [EventResync] to persistent ones. So code that reads again then, and compares by this
// rule, misses nothing.
func (f *Framework) History() int64 { return f.conduit.History() }
