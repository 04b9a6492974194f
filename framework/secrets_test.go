// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/guarding"
	"github.com/gocurator/curator/internal/secrets"
)

// TestSecretsOfAllTypes: no type that has a secret shows it, in whatever it stands, and whoever writes it.
func TestSecretsOfAllTypes(t *testing.T) {
	secret := "open-sesame-1234" // as long as the password of a session
	cfg, err := newConfig("a", []Option{WithAuth("digest", []byte("alice:"+secret)), WithSASL(DigestMD5("alice", secret))})
	require.NoError(t, err)
	mechanism := DigestMD5("alice", secret)
	exchange, err := mechanism.Start(t.Context(), SASLServer{Host: "a"})
	require.NoError(t, err)
	registration := guarding.Registration{Servers: "a", Session: 7, Password: secrets.Hide(secret)}
	session := &Session{id: 7, password: secrets.Hide(secret)}
	for name, value := range map[string]any{
		"secret": secrets.Hide(secret), "credential": conduit.Auth{Scheme: "digest", Credential: secrets.Hide(secret)},
		"config": cfg, "config of the conduit": cfg.Config, "option": WithAuth("digest", []byte(secret)),
		"session": session, "resumed session": conduit.Session{ID: 7, Password: secrets.Hide(secret)},
		"handshake": conduit.Handshake{SessionID: 7, Password: secrets.Hide(secret)},
		"mechanism": mechanism, "exchange": exchange,
		"registration": registration, "new session": newSessionToGuard{Registration: registration},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			level := &slog.HandlerOptions{Level: slog.LevelDebug}
			inside := struct {
				Shown  any
				hidden any
			}{value, value}
			for _, log := range []*slog.Logger{slog.New(slog.NewTextHandler(&said, level)), slog.New(slog.NewJSONHandler(&said, level))} {
				log.Debug("value", "it", value, "inside", inside, "pointer", &inside, "all", []any{value})
				log.Error("value", "error", fmt.Errorf("%v %+v %w", value, inside, errors.New(fmt.Sprint(value))))
			}
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
				fmt.Fprintf(&said, verb+" "+verb+" "+verb+"\n", value, inside, &inside)
			}
			for _, value := range []any{value, inside, []any{value}} {
				text, _ := json.Marshal(value) // some cannot be encoded, which is safe
				said.Write(text)
			}
			for _, form := range formsOf(secret) {
				require.NotContains(t, strings.ToLower(said.String()), strings.ToLower(form))
			}
		})
	}
}

// formsOf are the ways in which bytes are written.
func formsOf(secret string) []string {
	list := strings.Trim(fmt.Sprintf("%d", []byte(secret)), "[]")
	return []string{
		secret, hex.EncodeToString([]byte(secret)), base64.RawStdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		list, strings.ReplaceAll(list, " ", ","), strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", []byte(secret)), "[]byte"), "{}"),
	}
}
