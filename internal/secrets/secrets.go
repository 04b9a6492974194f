// SPDX-License-Identifier: Apache-2.0

// Package secrets keeps what no log and no error may show.
package secrets

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret returns bytes that must not be shown. It is a function because fmt and encoders cannot look into a function, and call
// no method of an unexported field.
type Secret func() []byte

const shown = "(hidden)"

// Hide returns a copy of the bytes, or of the text, as a Secret.
func Hide[T ~[]byte | ~string](secret T) Secret {
	b := []byte(string(secret))
	return func() []byte { return b }
}

// Text returns the secret as text, "" for nil.
func (s Secret) Text() string {
	if s == nil {
		return ""
	}
	return string(s())
}

// Format writes the same for every verb and every secret.
func (Secret) Format(s fmt.State, _ rune) {
	// Format has no way to return an error; fmt reports a failed write itself.
	_, _ = io.WriteString(s, shown)
}

// LogValue is what Format writes.
func (Secret) LogValue() slog.Value { return slog.StringValue(shown) }

// MarshalJSON encodes what Format writes.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + shown + `"`), nil }
