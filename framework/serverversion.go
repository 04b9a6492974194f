package framework

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// unknownVersion is that of a server that does not tell it.
const unknownVersion = "unknown"

// exchangeNewer is exchange, over a connection that there is, for a request that came
// with ZooKeeper 3.6. A server that does not know it cuts the connection, so it is asked
// for its version first.
func (f *Framework) exchangeNewer(ctx context.Context, c *call) error {
	server := f.watches.servedBy()
	if err := f.checkVersion(ctx, server); err != nil {
		return err
	}
	err := f.exchange(ctx, c)
	if isUnimplemented(err) {
		return f.watches.noteTooOld(server)
	}
	return err
}

// checkVersion fails when it is known that the server is older than ZooKeeper 3.6.
func (f *Framework) checkVersion(ctx context.Context, server string) error {
	f.watches.mu.Lock()
	version, refused := f.watches.version, f.watches.refused[server]
	f.watches.mu.Unlock()
	if refused {
		return unsupported(server, unknownVersion)
	}
	if version == "" {
		version = f.askVersion(ctx, server)
		if ctx.Err() != nil {
			return interrupted(ctx) // it has not been asked for long enough
		}
		f.watches.noteVersion(server, version)
	}
	if isOlder(version, 3, 6) {
		return unsupported(server, version)
	}
	return nil
}

// servedBy returns the server of the newest connection.
func (ws *watches) servedBy() string {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.server
}

func (ws *watches) noteVersion(server, version string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.server == server {
		ws.version = version
	}
}

// noteTooOld remembers that a server is older than ZooKeeper 3.6.
func (ws *watches) noteTooOld(server string) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.tooOld(server)
}

// tooOld is noteTooOld for callers that hold mu.
func (ws *watches) tooOld(server string) error {
	ws.refused[server] = true
	return unsupported(server, unknownVersion)
}

func unsupported(server, version string) error {
	return fmt.Errorf("%w: it takes ZooKeeper 3.6 or later, the version of %s is %s",
		ErrUnsupported, server, olderText(version))
}

func olderText(version string) string {
	if version == unknownVersion {
		return "older"
	}
	return version
}

// askVersion asks a server for its version with the four-letter word srvr, for no longer
// than the client lives.
func (f *Framework) askVersion(ctx context.Context, server string) string {
	ctx, cancel := context.WithTimeout(ctx, f.cfg.connectionTimeout)
	defer cancel()
	//nolint:contextcheck // it is the client's, on top of the caller's
	unbind := context.AfterFunc(f.ctx, cancel)
	defer unbind()
	conn, err := f.cfg.dial(ctx, "tcp", server)
	if err != nil {
		return unknownVersion
	}
	defer conn.Close()
	// A socket that refuses a deadline is closed, and the next call says so.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return unknownVersion
	}
	const enough = 4 << 10
	// Some servers reset the connection behind the answer.
	answer, _ := io.ReadAll(io.LimitReader(conn, enough))
	return parseVersion(string(answer))
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

// isOlder tells whether a version is known to be older than major.minor.
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
