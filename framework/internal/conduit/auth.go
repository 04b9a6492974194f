// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"errors"
	"slices"

	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/internal/secrets"
)

// ErrAuthFailed reports that a server has refused a credential.
var ErrAuthFailed = errors.New("a server has refused the credential")

// Auth is a credential that every connection presents.
type Auth struct {
	Scheme     string
	Credential secrets.Secret
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

// SetAuth presents these credentials of a scheme instead of the ones before, before the next request of the present
// connection, and on later ones.
func (c *Conduit) SetAuth(scheme string, credentials ...secrets.Secret) {
	c.authMu.Lock()
	next := slices.DeleteFunc(slices.Clone(c.auth()), func(a Auth) bool { return a.Scheme == scheme })
	for _, secret := range credentials {
		next = append(next, Auth{Scheme: scheme, Credential: secret})
	}
	c.auths.Store(&next) // first: a connection that has presented nothing yet presents these
	c.authMu.Unlock()
	conn := c.current()
	if conn == nil {
		return
	}
	conn.queue.Lock()
	defer conn.queue.Unlock()
	if conn.credentials.presented { // they go with the next request
		conn.credentials.presented, conn.credentials.again = false, true
	}
}

// auth returns what connections present.
func (c *Conduit) auth() []Auth { return *c.auths.Load() }

// credentials are what one connection presents.
type credentials struct {
	all        func() []Auth
	presented  bool
	again      bool     // some follow requests, so replies to these may come first
	unanswered []string // their schemes, oldest first
}

// present appends the credentials to the first batch, in front of all calls. So no call is
// ever processed without them.
func (c *credentials) present(batch []byte) []byte {
	if c.presented {
		return batch
	}
	c.presented = true
	for _, auth := range c.all() {
		batch = appendFrame(batch, auth.call())
		c.unanswered = append(c.unanswered, auth.Scheme)
	}
	return batch
}

// areAnswered reports whether there are no credentials that the server has not read yet.
func (c *credentials) areAnswered() bool {
	return len(c.unanswered) == 0 && (c.presented || len(c.all()) == 0)
}

// answered takes the answer to the oldest unanswered credential, and returns its scheme.
// It returns false if there is none.
func (c *credentials) answered() (scheme string, ok bool) {
	if len(c.unanswered) == 0 {
		return "", false
	}
	scheme, c.unanswered = c.unanswered[0], c.unanswered[1:]
	return scheme, true
}
