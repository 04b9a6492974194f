// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/secrets"
)

// SetAuth presents these credentials of a scheme from now on, instead of all that [WithAuth] or
// SetAuth gave for this scheme before; none presents no more of it. It adds credentials, and rotates
// them, while the client runs. The connection and the session stay. Credentials of other schemes
// stay as they are. All views of the client have the same credentials. They are copied and hidden, and
// refused ones end the client, as with WithAuth.
//
// SetAuth blocks until a server has accepted the credentials. Requests that begin after SetAuth are
// processed with them. When it fails because ctx ends or no server can be reached, the client
// presents the credentials all the same.
//
// A server does not take identities back: an old credential counts until the connection ends. To be
// rid of it at once, the program closes the client.
func (f *Framework) SetAuth(ctx context.Context, scheme string, credentials ...[]byte) error {
	const name = "set auth"
	if ctx == nil {
		return &OpError{name, "", errNilContext}
	}
	if scheme == "" {
		return &OpError{name, "", fmt.Errorf(`%w: auth scheme "", expected one such as "digest"`, ErrInvalidOption)}
	}
	hidden := make([]secrets.Secret, len(credentials))
	for i, credential := range credentials {
		hidden[i] = secrets.Hide(credential)
		if err := f.cfg.fitsAuth(conduit.Auth{Scheme: scheme, Credential: hidden[i]}); err != nil {
			return &OpError{name, "", err}
		}
	}
	f.conduit.SetAuth(scheme, hidden...)
	if err := f.present(ctx); err != nil {
		return &OpError{name, "", err}
	}
	return nil
}

// present waits until a server has accepted the credentials. The reply to any request, even a refusal, comes after the replies
// to the credentials.
func (f *Framework) present(ctx context.Context, opts ...ReadOption) error {
	_, err := f.base.Exists(ctx, "/", opts...)
	return ignoring(err, ErrNoAuth)
}
