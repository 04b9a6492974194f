// SPDX-License-Identifier: Apache-2.0

// Package guarding is what clients and guards say to each other. A guard ends the sessions of processes
// that are gone. The command curatorctl has one.
//
// They speak over a Unix socket that keeps the bounds of messages. The first message of a client hands
// over a pidfd of its own process, by which the kernel shows the end of that process alone. A further message with
// a pidfd hands over another process that acts under the session, see [Beside]. Each message without one is a
// [Registration], which replaces the one before. The guard answers each message with an [Answer]. It ends the session when all
// processes are gone. The end of the connection says nothing about them.
package guarding

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/gocurator/curator/internal/secrets"
)

const (
	// Env names the environment variable with the path of the socket.
	Env = "CURATOR_GUARD"

	// Network is the network of the socket.
	Network = "unixpacket"

	// maxPath is the length in bytes of the longest path of a socket that the kernel takes.
	maxPath = 107

	// MaxMessage is the length in bytes of the longest message.
	MaxMessage = 64 << 10
)

// CheckPath returns an error for a path that no socket can have.
func CheckPath(path string) error {
	if path == "" || len(path) > maxPath {
		return fmt.Errorf("path of the socket of a guard with %d bytes, expected 1 to %d", len(path), maxPath)
	}
	return nil
}

// Registration is what a guard needs to end a session. The zero value withdraws a registration.
type Registration struct {
	Servers  string // host:port,...
	Session  int64
	Password secrets.Secret
	Timeout  time.Duration // after which the servers end the session by themselves
}

// Format writes the session for every verb, and never the password.
func (r Registration) Format(f fmt.State, _ rune) {
	// Format has no way to return an error; fmt reports a failed write itself.
	_, _ = io.WriteString(f, fmt.Sprintf("0x%x", uint64(r.Session)))
}

// LogValue is what Format writes.
func (r Registration) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(r)) }

// MarshalJSON encodes what Format writes.
func (r Registration) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprint(r)) }

// message is a registration on its way to the guard.
type message struct {
	Servers  string
	Session  int64
	Password []byte
	Timeout  time.Duration
}

func (r Registration) encode() ([]byte, error) {
	m := message{Servers: r.Servers, Session: r.Session, Timeout: r.Timeout}
	if r.Password != nil {
		m.Password = r.Password()
	}
	return json.Marshal(m)
}

// Decode reads the message of a registration.
func Decode(text []byte) (Registration, error) {
	var m message
	err := json.Unmarshal(text, &m)
	r := Registration{Servers: m.Servers, Session: m.Session, Timeout: m.Timeout}
	if len(m.Password) > 0 {
		r.Password = secrets.Hide(m.Password)
	}
	return r, err
}

// Answer is what a guard says to a message.
type Answer struct {
	Refused string // why, or empty
}
