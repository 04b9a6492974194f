// SPDX-License-Identifier: Apache-2.0

// Package hidden looks for secrets in what programs write.
package hidden

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
)

// Require fails the test if one of the values shows the secret, alone or inside another value, in a log, an error, a format or JSON.
func Require(t *testing.T, secret string, values map[string]any) {
	t.Helper()
	for name, value := range values {
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
