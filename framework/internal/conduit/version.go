// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
)

// TooOldError reports a server that does not have the requests of a version of ZooKeeper.
type TooOldError struct {
	Server  string
	Version string // "" if unknown
	Needs   string // "" for 3.6
	Other   string // what the server is, if it is no ZooKeeper
	Keeper  string // the version of ClickHouse Keeper that has the request, "" for none
}

func (e *TooOldError) Error() string {
	if e.Other != "" {
		needs := "ZooKeeper"
		if e.Keeper != "" {
			needs = fmt.Sprintf("ZooKeeper, or ClickHouse Keeper %s or later", e.Keeper)
		}
		return fmt.Sprintf("it takes %s, %s is %s", needs, e.Server, e.Other)
	}
	version := e.Version
	if version == "" {
		version = "older"
	}
	return fmt.Sprintf("it takes ZooKeeper %s or later, the version of %s is %s", cmp.Or(e.Needs, "3.6"), e.Server, version)
}

// unknownVersion is the version of a server that does not report it.
const unknownVersion = "unknown"

// serverVersion is the version of a connection's server.
type serverVersion struct {
	asked   sync.Once
	known   atomic.Pointer[string] // nil until found is closed
	found   chan struct{}          // closed when the server has answered, or no answer has come in time
	refused atomic.Bool            // the server has refused a request of ZooKeeper 3.6

	// other is what a server says that it is, with its version, if it is no ZooKeeper. Set before found is closed.
	other   atomic.Pointer[string]
	unusual atomic.Bool // the server numbers sessions otherwise than ZooKeeper
}

func newServerVersion() serverVersion { return serverVersion{found: make(chan struct{})} }

// versions knows which servers are too old for the requests of ZooKeeper 3.6.
type versions struct {
	dial  dialer
	limit time.Duration // of one question

	mu      sync.Mutex
	refused map[string]string // the version that a server, named by [target.String], reported when it refused such a request
	hungUp  map[hangUp]int    // how many times in a row
	lacking map[hangUp]bool   // what a server has hung up at each time, of [later]

	anyHangUp atomic.Bool // hungUp or lacking may have entries
}

// hangUp is a kind of request, by its opcode, that a server has not answered but hung up.
type hangUp struct {
	server string
	op     int32
}

// maxHangUps is how many times in a row a server may hang up at one kind of request. Servers that
// only speak ZooKeeper's protocol, such as ClickHouse Keeper, may know their version and yet not have
// every request of it. A server that restarts hangs up once.
const maxHangUps = 3

// isOptional reports whether the client works without a kind of request. ZooKeeper 3.6 introduced all of
// them but setWatches, which every ZooKeeper has.
func isOptional(op int32) bool {
	return op == wire.OpAddWatch || op == wire.OpSetWatches2 || op == wire.OpMultiRead || op == wire.OpSetWatches
}

// later are the requests that ClickHouse Keeper, by its public issues, has only since some version, or not at
// all. A server that does not know a request hangs up, and Keeper ends the session with the connection.
var later = map[int32]struct{ zookeeper, keeper string }{
	wire.OpCreate2:              {"3.5", "25.12"},
	wire.OpCreateContainer:      {"3.5", "26.7"},
	wire.OpCreateTTL:            {"3.5", "26.6"},
	wire.OpAddWatch:             {"3.6", "25.12"},
	wire.OpGetEphemerals:        {"3.6", ""},
	wire.OpGetAllChildrenNumber: {"3.6", ""},
	wire.OpWhoAmI:               {"3.7", ""},
}

// isCounted reports whether hang-ups at a kind of request are counted.
func isCounted(op int32) bool {
	_, isLater := later[op]
	return isLater || isOptional(op)
}

// maxUnusual bounds the ids of sessions that no ZooKeeper gives: its ids begin with the number of the server
// and the time. ClickHouse Keeper counts from 1.
const maxUnusual = 1 << 32

const keeper = "ClickHouse Keeper "

// lacks returns why the server cannot know a kind of request, nil if it may. Only a server that may be no ZooKeeper
// is asked what it is, and lacks waits for the answer.
func (c *conn) lacks(ctx context.Context, op int32) *TooOldError {
	request, isLater := later[op]
	v := &c.owner.versions
	if !isLater || !c.version.unusual.Load() && c.version.other.Load() == nil && !v.anyHangUp.Load() {
		return nil
	}
	hungUp, lacking := v.hangUps(hangUp{c.to.String(), op})
	// The client is useless without create2, so only a server that hangs up at it is asked.
	mayBe := op != wire.OpCreate2 && (c.version.unusual.Load() || c.version.other.Load() != nil)
	if !hungUp && !lacking && !mayBe {
		return nil
	}
	c.askVersion()
	select {
	case <-c.version.found:
	case <-c.ctx.Done(): // the request will show why
		return nil
	case <-ctx.Done():
		return nil
	}
	refusal := &TooOldError{Server: c.to.String(), Needs: request.zookeeper, Keeper: request.keeper}
	other := c.version.other.Load()
	if other != nil {
		refusal.Other = *other
		if version, isKeeper := strings.CutPrefix(*other, keeper); isKeeper {
			lacking = !hasRequest(version, request.keeper)
		}
	}
	// ZooKeeper hangs up at too much data, too.
	carriesData := op == wire.OpCreate2 || op == wire.OpCreateTTL
	if !lacking || carriesData && other == nil && !c.version.unusual.Load() {
		return nil
	}
	return refusal
}

// hasRequest reports whether a version of ClickHouse Keeper has a request that came with another one.
func hasRequest(version, since string) bool {
	first, second, _ := strings.Cut(since, ".")
	major, _ := strconv.Atoi(first)
	minor, _ := strconv.Atoi(second)
	return since != "" && !isOlder(strings.TrimPrefix(version, "v"), major, minor)
}

// checkZooKeeper returns a [TooOldError] unless the server is ZooKeeper. That is so if it says so, or if it says
// nothing and numbers sessions as ZooKeeper does. It waits for the answer.
func (c *conn) checkZooKeeper(ctx context.Context) error {
	if err := c.awaitVersion(ctx); err != nil {
		return err
	}
	other := "a server that does not say what it is, and numbers sessions otherwise than ZooKeeper"
	if said := c.version.other.Load(); said != nil {
		other = *said
	} else if *c.version.known.Load() != unknownVersion || !c.version.unusual.Load() {
		return nil
	}
	return &TooOldError{Server: c.to.String(), Other: other}
}

// hangUps reports whether the server has hung up at requests of this kind since it last answered one, and whether it
// did so too often.
func (v *versions) hangUps(at hangUp) (some, tooMany bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.hungUp[at] > 0, v.lacking[at]
}

// noteHangUp counts that the server has hung up instead of answering these requests. If it does so each time
// at one kind of request, it counts as too old for it.
func (c *conn) noteHangUp(unanswered []pendingRequest) {
	counted := make(map[int32]bool)
	for _, request := range unanswered {
		if !isCounted(request.op) || counted[request.op] {
			continue
		}
		counted[request.op] = true
		if at := (hangUp{c.to.String(), request.op}); c.owner.versions.countHangUp(at) {
			if isOptional(request.op) {
				_ = c.noteTooOld() // the calls have an error already
			}
			c.owner.cfg.Logger.Warn("a server hangs up each time at one kind of request: the client does not send it to this server any more",
				"server.address", c.to.String(), "opcode", request.op, "times", maxHangUps)
		}
	}
}

// countHangUp reports whether a server has hung up often enough.
func (v *versions) countHangUp(at hangUp) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.hungUp == nil {
		v.hungUp = make(map[hangUp]int)
	}
	v.anyHangUp.Store(true)
	v.hungUp[at]++
	if v.hungUp[at] < maxHangUps {
		return false
	}
	delete(v.hungUp, at)
	if !isOptional(at.op) {
		if v.lacking == nil {
			v.lacking = make(map[hangUp]bool)
		}
		v.lacking[at] = true
	}
	return true
}

// noteAnswer notes that a server answers this kind of request.
func (v *versions) noteAnswer(server target, op int32) {
	if !v.anyHangUp.Load() || !isCounted(op) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.hungUp, hangUp{server.String(), op})
}

// checkVersion returns a [TooOldError] if the server is known to be older than that. It waits
// until the server has been asked, and no longer than the connection lasts.
func (c *conn) checkVersion(ctx context.Context, major, minor int) error {
	if err := c.awaitVersion(ctx); err != nil {
		return err
	}
	if err := c.owner.versions.check(c.to, &c.version); err != nil || major == 3 && minor <= 6 {
		return err
	}
	if version := *c.version.known.Load(); version == unknownVersion || isOlder(version, major, minor) {
		needs := fmt.Sprintf("%d.%d", major, minor)
		tooOld := &TooOldError{Server: c.to.String(), Version: strings.TrimPrefix(version, unknownVersion), Needs: needs}
		if other := c.version.other.Load(); other != nil {
			tooOld.Other = *other
		}
		return tooOld
	}
	return nil
}

// awaitVersion waits until the server has been asked for its version.
func (c *conn) awaitVersion(ctx context.Context) error {
	c.askVersion()
	select {
	case <-c.version.found:
		return nil
	case <-c.ctx.Done():
		return notSent(ErrNotConnected)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// askVersion begins to ask the server for its version, once. That takes a connection of its own, so
// all callers share the question, and none of them ends it.
func (c *conn) askVersion() {
	c.version.asked.Do(func() { go c.findVersion() })
}

func (c *conn) findVersion() {
	ctx, cancel := context.WithTimeout(c.to.within(c.owner.ctx), c.owner.versions.limit)
	defer cancel()
	stop := context.AfterFunc(c.ctx, cancel)
	defer stop()
	said, other := c.owner.versions.ask(ctx, c.to.server)
	if c.hasEnded() {
		return // that there was no answer says nothing
	}
	if other != "" {
		c.version.other.Store(&other)
	}
	c.version.known.Store(&said)
	close(c.version.found)
}

// check returns a [TooOldError] if a server that has been asked is older than ZooKeeper 3.6.
func (v *versions) check(server target, of *serverVersion) error {
	version := *of.known.Load()
	switch {
	case version != unknownVersion && isOlder(version, 3, 6):
		return &TooOldError{Server: server.String(), Version: version}
	case of.refused.Load(), v.hasRefused(server, version):
		return &TooOldError{Server: server.String()}
	default:
		return nil // an unknown version is not refused: the request itself will show
	}
}

// isNewer reports whether a server is known to have the requests of ZooKeeper 3.6.
func (v *versions) isNewer(server target, of *serverVersion) bool {
	version := of.known.Load()
	return version != nil && *version != unknownVersion && !isOlder(*version, 3, 6) && !of.refused.Load() && !v.hasRefused(server, *version)
}

// checkSetWatches reports whether the server is known to have setWatches, as every server that reports a
// version of ZooKeeper, or else returns why it counts as a server without. It does not wait for the version.
func (c *conn) checkSetWatches() (known bool, tooOld *TooOldError) {
	version := unknownVersion
	if said := c.version.known.Load(); said != nil {
		version = *said
	} else {
		c.askVersion()
	}
	if c.version.refused.Load() || c.owner.versions.hasRefused(c.to, version) {
		return false, &TooOldError{Server: c.to.String(), Needs: "3.2"}
	}
	return version != unknownVersion, nil
}

// hasRefused reports whether a server has refused a request, on any connection. It may have been
// upgraded since, so this counts until it reports another version than it did then. One address may
// also belong to several servers: one reports its version, and another has refused the request.
func (v *versions) hasRefused(server target, version string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.refused) == 0 {
		return false
	}
	then, refused := v.refused[server.String()]
	return refused && (version == unknownVersion || version == then)
}

// noteTooOld remembers that a server that reports this version has refused a request as one that it
// does not know.
func (v *versions) noteTooOld(server, version string) *TooOldError {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refused == nil {
		v.refused = make(map[string]string)
	}
	v.refused[server] = version
	return &TooOldError{Server: server}
}

// noteTooOld remembers that the server of the connection has refused such a request.
func (c *conn) noteTooOld() *TooOldError {
	c.version.refused.Store(true)
	version := unknownVersion
	if known := c.version.known.Load(); known != nil {
		version = *known
	}
	return c.owner.versions.noteTooOld(c.to.String(), version)
}

// ask returns the version of a ZooKeeper, or an unknown one and what else the server says that it is.
func (v *versions) ask(ctx context.Context, server string) (version, other string) {
	answer, err := askFourLetterWord(ctx, v.dial, server, "srvr")
	if err != nil {
		return unknownVersion, ""
	}
	line, _, _ := strings.Cut(answer, "\n")
	product, text, found := strings.Cut(line, " version: ")
	if !found || strings.EqualFold(product, "zookeeper") {
		return parseVersion(answer), ""
	}
	return unknownVersion, strings.TrimSpace(product) + " " + strings.TrimSpace(text)
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
