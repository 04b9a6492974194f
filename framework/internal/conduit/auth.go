package conduit

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/gocurator/curator/framework/internal/wire"
)

// ErrAuthFailed reports that a server has refused a credential. It is terminal: a
// conduit that has met it makes no further connection.
var ErrAuthFailed = errors.New("a server has refused the credential")

// Auth is a credential that every connection presents.
type Auth struct {
	Scheme     string
	Credential Secret
}

// Secret returns bytes that must not be shown. It is a function because fmt cannot look
// into a function, and does not call the Format method of an unexported field.
type Secret func() []byte

// Hide returns a copy of the bytes as a Secret.
func Hide(b []byte) Secret {
	b = bytes.Clone(b)
	return func() []byte { return b }
}

// Format writes the scheme for every verb, and never the credential.
func (a Auth) Format(s fmt.State, _ rune) {
	// Format has no way to return an error; fmt reports a failed write itself.
	_, _ = io.WriteString(s, a.Scheme)
}

// call is the request that presents the credential.
func (a Auth) call() *Call {
	credential := a.Credential()
	e := wire.NewEncoder(2*wire.LengthSize + wire.LengthSize + len(a.Scheme) + len(credential))
	e.Int32(0) // the type, which no server looks at
	e.String(a.Scheme)
	e.Buffer(credential)
	return &Call{Op: wire.OpAuth, Body: e.Bytes(), xid: wire.XidAuth}
}

// appendAuth appends the credentials in front of the first requests of ours, so
// that none is ever processed without them. Callers hold writing and queue.
func (c *conn) appendAuth(batch []byte) []byte {
	c.authenticated = true
	for _, auth := range c.owner.cfg.Auth {
		batch = appendFrame(batch, auth.call())
		c.presented = append(c.presented, auth.Scheme)
	}
	return batch
}

// receiveAuthReply handles the answer to the oldest unanswered credential. A server
// answers it while it reads, before it processes the preceding request, so the answer
// has no place in the order of the other replies. It proves nothing about the lease
// either, because the server does not count it as a sign of life of the session.
func (c *conn) receiveAuthReply(code int32) error {
	c.queue.Lock()
	if len(c.presented) == 0 {
		c.queue.Unlock()
		return fmt.Errorf("%w: a reply to a credential that was not presented", ErrProtocol)
	}
	scheme := c.presented[0]
	c.presented = c.presented[1:]
	c.queue.Unlock()
	switch code {
	case 0:
		return nil
	case wire.CodeAuthFailed:
		err := fmt.Errorf("%w: scheme %q at %s", ErrAuthFailed, scheme, c.server)
		c.owner.refused.Store(true)
		c.owner.cfg.Events.AuthFailed(err)
		return err
	default:
		return fmt.Errorf("authentication by scheme %q: server error %d", scheme, code)
	}
}
