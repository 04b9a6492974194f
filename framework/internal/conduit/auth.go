// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"errors"

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
