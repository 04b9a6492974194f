package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// WithAuth presents a credential to every server, on every connection, before any
// request of the client is processed. For scheme "digest" the credential is
// "user:password"; other schemes need a provider at the servers. Several WithAuth add
// several identities. The credential is copied, and never appears in a log, an error or
// the output of fmt. It is Curator's authorization.
//
// A credential is not encrypted: without [WithTLS] it crosses the network in the clear.
//
// If a server refuses a credential, the client ends, because no later attempt could
// succeed: the state becomes [Lost], all holds end with [ReasonAuthFailed], every watch
// ends, every call fails with [ErrAuthFailed], and no further connection is made. ZooKeeper
// refuses a scheme without a provider, but never a digest: a wrong password shows only as
// an [ErrNoAuth] from a znode that requires the right one.
func WithAuth(scheme string, credential []byte) Option {
	return optionFunc(func(c *config) error {
		if scheme == "" {
			return errors.New(`auth scheme "", expected one such as "digest"`)
		}
		c.auth = append(c.auth, conduit.Auth{Scheme: scheme, Credential: conduit.Hide(credential)})
		return nil
	})
}

// awaitAccess waits for a connection whose server has accepted the credentials.
func (f *Framework) awaitAccess(ctx context.Context) error {
	if err := f.BlockUntilConnected(ctx); err != nil || len(f.cfg.auth) == 0 {
		return err // without credentials there is nothing to be refused
	}
	// The reply to any request, a refusal too, comes after those to the credentials.
	if _, err := f.Exists(ctx, "/"); err != nil && !errors.Is(err, ErrNoAuth) {
		return fmt.Errorf("framework: presenting the credentials: %w", reasonOf(err))
	}
	return nil
}
