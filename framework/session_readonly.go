package framework

// WithReadOnly lets the client make do with a server that has lost its quorum, where
// such servers are started with the system property readonlymode.enabled=true and,
// as ZooKeeper 3.8 opens no sessions in that mode otherwise, with
// localSessionsEnabled=true in zoo.cfg. It is Curator's canBeReadOnly. Default: only
// servers with a quorum will do.
//
// Then the state is [ReadOnly]: reads are answered from what the server knew last,
// which others may have changed long since, and with more than was ever committed.
// Writes fail with [ErrNotReadOnly], at once and however they are to be retried; a
// [Guaranteed] delete goes on in the background. The client goes on looking for a
// server with a quorum, by the four-letter word isro, and then is [Connected] or
// [Reconnected] there.
//
// A session of the quorum is not taken to a read-only server, which cannot know what has
// become of it. So a client that loses the quorum is first [Suspended]
// and then [Lost], and is ReadOnly after that; and it opens a new session with every
// connection that it makes after the end of its session's certainty, even when the old
// one lives on at the servers and keeps its ephemeral nodes until it times out there.
func WithReadOnly() Option {
	return optionFunc(func(c *config) error { c.readOnly = true; return nil })
}
