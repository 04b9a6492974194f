package framework

// WithReadOnly lets the client use a server that has lost its quorum. Such a server must be
// started with the system property readonlymode.enabled=true and, because ZooKeeper 3.8
// otherwise opens no sessions in that mode, with localSessionsEnabled=true in zoo.cfg. It is
// Curator's canBeReadOnly. Default: the client uses only servers with a quorum.
//
// On such a server the state is [ReadOnly]. Reads return what the server knew last: other
// clients may have changed it since, and it may include writes that were never committed.
// Writes fail at once with [ErrNotReadOnly], whatever the retry policy; a [Guaranteed]
// delete goes on in the background. The client keeps looking for a server with a quorum, by
// the four-letter word isro, and is [Connected] or [Reconnected] there.
//
// The client never presents a quorum session to a read-only server, which cannot know
// whether the session still exists. So a client that loses the quorum is first [Suspended],
// then [Lost], and then ReadOnly. Every connection made after the session's deadline opens a
// new session, even if the servers keep the old one, and its ephemeral nodes, until it times
// out.
func WithReadOnly() Option {
	return optionFunc(func(c *config) error { c.readOnly = true; return nil })
}
