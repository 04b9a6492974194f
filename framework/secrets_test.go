// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"crypto/ed25519"
	"crypto/tls"
	"testing"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/guarding"
	"github.com/gocurator/curator/internal/secrets"
	"github.com/gocurator/curator/internal/testkit/hidden"
	"github.com/gocurator/curator/internal/testkit/must"
)

// TestSecretsOfAllTypes: no type that has a secret shows it, in whatever it stands, and whoever writes it.
func TestSecretsOfAllTypes(t *testing.T) {
	secret := "open-sesame-1234" // as long as the password of a session
	key := tls.Certificate{PrivateKey: ed25519.NewKeyFromSeed([]byte(secret + secret))}
	cfg := must.Get(newConfig("a", []Option{
		WithAuth("digest", []byte("alice:"+secret)), WithSASL(DigestMD5("alice", secret)), WithTLS(&tls.Config{Certificates: []tls.Certificate{key}}),
	}))(t)
	mechanism := DigestMD5("alice", secret)
	exchange := must.Get(mechanism.Start(t.Context(), SASLServer{Host: "a"}))(t)
	registration := guarding.Registration{Servers: "a", Session: 7, Password: secrets.Hide(secret)}
	session := &Session{id: 7, password: secrets.Hide(secret)}
	hidden.Require(t, secret, map[string]any{
		"secret": secrets.Hide(secret), "credential": conduit.Auth{Scheme: "digest", Credential: secrets.Hide(secret)},
		"config": cfg, "config of the conduit": cfg.Config, "option": WithAuth("digest", []byte(secret)),
		"session": session, "resumed session": conduit.Session{ID: 7, Password: secrets.Hide(secret)},
		"handshake": conduit.Handshake{SessionID: 7, Password: secrets.Hide(secret)},
		"mechanism": mechanism, "exchange": exchange,
		"registration": registration, "new session": newSessionToGuard{Registration: registration},
	})
}
