package framework

import (
	"context"
	"errors"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// WithAuth presents a credential to every server, on every connection, before any
// request of the client is processed: for scheme "digest", "user:password"; other
// schemes are those that the servers have been given providers for. Given several times,
// it adds identities. The credential is copied, and is never part of a log, an error
// or what fmt writes. It is Curator's authorization.
//
// Credentials prove who the client is and do not hide it: without [WithTLS] a
// digest crosses the network as it is.
//
// A credential that a server refuses is the end of the client, as no later attempt
// could do better: the state becomes [Lost], whatever is held ends with
// [ReasonAuthFailed], every call fails with [ErrAuthFailed], and no further
// connection is made. ZooKeeper refuses a scheme that it has no provider for, but
// no digest: whether the password is the right one shows when a node that only its owner
// may use answers [ErrNoAuth].
func WithAuth(scheme string, credential []byte) Option {
	return optionFunc(func(c *config) error {
		if scheme == "" {
			return errors.New(`auth scheme "", expected one such as "digest"`)
		}
		c.auth = append(c.auth, conduit.Auth{Scheme: scheme, Credential: conduit.Hide(credential)})
		return nil
	})
}

// awaitAccess returns when there is a connection and the credentials are
// accepted, or the reason why not.
func (f *Framework) awaitAccess(ctx context.Context) error {
	if err := f.BlockUntilConnected(ctx); err != nil || len(f.cfg.auth) == 0 {
		return err
	}
	// The reply to any request, a refusal too, comes after those to the credentials.
	if _, err := f.Exists(ctx, "/"); !errors.Is(err, ErrNoAuth) {
		return err
	}
	return nil
}
