package conduit

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// maxAnswer bounds how much of the answer to a four-letter word is read.
const maxAnswer = 4 << 10

// ask sends a four-letter word to a server, over a separate connection, and returns the
// beginning of the answer.
func (c *Conduit) ask(ctx context.Context, server, word string) (string, error) {
	socket, err := c.cfg.Dial(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer socket.Close()
	// A socket that refuses a deadline is closed, and the next call says so.
	stop := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(socket, word); err != nil {
		return "", err
	}
	// Some servers reset the connection behind the answer.
	answer, _ := io.ReadAll(io.LimitReader(socket, maxAnswer))
	return string(answer), nil
}

// TooOldError reports a server that does not have the requests of ZooKeeper 3.6.
type TooOldError struct {
	Server  string
	Version string // "" if unknown
}

func (e *TooOldError) Error() string {
	version := e.Version
	if version == "" {
		version = "older"
	}
	return fmt.Sprintf("it takes ZooKeeper 3.6 or later, the version of %s is %s", e.Server, version)
}

// unknownVersion is the version of a server that does not report it.
const unknownVersion = "unknown"

// CheckVersion returns the server of the newest connection, and a [TooOldError] if the
// server is known to be older than ZooKeeper 3.6. A server cuts the connection when it
// does not know a request, so the first call on each connection asks for its version.
// The context bounds that.
func (c *Conduit) CheckVersion(ctx context.Context) (server string, err error) {
	conn := c.current()
	if conn == nil {
		return "", notSent(ErrNotConnected)
	}
	c.mu.Lock()
	refused := c.tooOld[conn.server]
	c.mu.Unlock()
	if refused {
		return conn.server, &TooOldError{Server: conn.server}
	}
	version := conn.version.Load()
	if version == nil {
		said := c.askVersion(ctx, conn.server)
		if ctx.Err() != nil {
			return conn.server, context.Cause(ctx) // it has not been asked for long enough
		}
		version = &said
		conn.version.Store(version)
	}
	// An unknown version is not refused: the request itself will show.
	if isOlder(*version, 3, 6) {
		return conn.server, &TooOldError{Server: conn.server, Version: *version}
	}
	return conn.server, nil
}

// NoteTooOld remembers that a server has refused a request as one that it does not know.
func (c *Conduit) NoteTooOld(server string) *TooOldError {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tooOld[server] = true
	return &TooOldError{Server: server}
}

func (c *Conduit) askVersion(ctx context.Context, server string) string {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ConnectTimeout)
	defer cancel()
	answer, err := c.ask(ctx, server, "srvr")
	if err != nil {
		return unknownVersion
	}
	return parseVersion(answer)
}

// parseVersion finds "3.8.0" in "Zookeeper version: 3.8.0-5a02a05..., built on ...".
func parseVersion(answer string) string {
	_, rest, found := strings.Cut(answer, "ersion: ")
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
	if !found || end <= 0 {
		return unknownVersion
	}
	return rest[:end]
}

// isOlder reports whether a version is known to be older than major.minor.
func isOlder(version string, major, minor int) bool {
	first, rest, _ := strings.Cut(version, ".")
	second, _, _ := strings.Cut(rest, ".")
	gotMajor, err := strconv.Atoi(first)
	if err != nil {
		return false
	}
	gotMinor, err := strconv.Atoi(second)
	if err != nil {
		return false
	}
	return gotMajor < major || gotMajor == major && gotMinor < minor
}
