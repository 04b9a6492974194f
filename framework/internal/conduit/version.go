package conduit

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

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

// serverVersion is the version of a connection's server.
type serverVersion struct {
	asking chan struct{}          // holds a value while the server is asked
	known  atomic.Pointer[string] // nil while it has not been asked
}

// versions knows which servers are too old for the requests of ZooKeeper 3.6.
type versions struct {
	dial  dialer
	limit time.Duration // of one question

	mu      sync.Mutex
	refused map[string]bool // servers that have refused such a request, as [target.String] names them
}

// check returns a [TooOldError] if a server is known to be older than ZooKeeper 3.6.
func (v *versions) check(ctx context.Context, server target, of *serverVersion) error {
	if v.hasRefused(server) {
		return &TooOldError{Server: server.String()}
	}
	version, err := v.find(ctx, server, of)
	if err != nil {
		return err
	}
	// An unknown version is not refused: the request itself will show.
	if isOlder(version, 3, 6) {
		return &TooOldError{Server: server.String(), Version: version}
	}
	return nil
}

// find asks for the version once per connection. That takes a connection of its own, so of many
// callers one asks, and the others wait. If its context ends first, the next one asks.
func (v *versions) find(ctx context.Context, server target, of *serverVersion) (string, error) {
	if known := of.known.Load(); known != nil {
		return *known, nil
	}
	select {
	case of.asking <- struct{}{}:
		defer func() { <-of.asking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if known := of.known.Load(); known != nil {
		return *known, nil
	}
	said := v.ask(ctx, server)
	if said == unknownVersion && ctx.Err() != nil {
		return "", context.Cause(ctx) // it has not been asked for long enough
	}
	of.known.Store(&said)
	return said, nil
}

// isNewer reports whether a server is known to have the requests of ZooKeeper 3.6.
func (v *versions) isNewer(server target, of *serverVersion) bool {
	version := of.known.Load()
	return version != nil && *version != unknownVersion && !isOlder(*version, 3, 6) && !v.hasRefused(server)
}

func (v *versions) hasRefused(server target) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.refused) > 0 && v.refused[server.String()]
}

// noteTooOld remembers that a server has refused a request as one that it does not know.
func (v *versions) noteTooOld(server string) *TooOldError {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refused == nil {
		v.refused = make(map[string]bool)
	}
	v.refused[server] = true
	return &TooOldError{Server: server}
}

func (v *versions) ask(ctx context.Context, server target) string {
	ctx, cancel := context.WithTimeout(server.within(ctx), v.limit)
	defer cancel()
	answer, err := askFourLetterWord(ctx, v.dial, server.server, "srvr")
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
