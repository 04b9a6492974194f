// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gocurator/curator/framework/internal/wire"
)

// unknownVersion is the version of a server that does not report it.
const unknownVersion = "unknown"

// serverVersion is what the server of a connection is, and which requests it has.
type serverVersion struct {
	server   target
	versions *versions
	log      *slog.Logger
	ask      func(ctx context.Context) (string, error) // for the answer to srvr
	over     context.Context                           // ends with the connection
	closed   <-chan struct{}                           // of the owner

	asked   sync.Once
	known   atomic.Pointer[product] // nil until found is closed
	found   chan struct{}           // closed when the server has answered, or no answer has come in time
	unusual atomic.Bool             // the server numbers sessions otherwise than ZooKeeper
}

// product is what a server says that it is.
type product struct {
	version string // of ZooKeeper
	other   string // name and version of anything else
}

// now returns what the server is, as far as that is known.
func (s *serverVersion) now() product {
	if known := s.known.Load(); known != nil {
		return *known
	}
	return product{version: unknownVersion}
}

// kind is a kind of request that some servers do not have. One that does not know a request hangs up or refuses it, and
// ClickHouse Keeper ends the session with the connection. Its versions are those of its public issues.
type kind struct {
	zookeeper string // the version of ZooKeeper that has it
	keeper    string // the version of ClickHouse Keeper that has it, "" for none
	asks      bool   // each server is asked for its version first
	proved    bool   // a server that does not report its version counts as one without it
	optional  bool   // the client works without it: a server that hangs up counts as older
}

var kinds = map[int32]kind{
	wire.OpCreate2:         {zookeeper: "3.5", keeper: "25.12"},
	wire.OpCreateContainer: {zookeeper: "3.5", keeper: "26.7"},
	wire.OpCreateTTL:       {zookeeper: "3.5", keeper: "26.6"},
	wire.OpMultiRead:       {zookeeper: "3.6", optional: true},
	wire.OpSetWatches2:     {zookeeper: "3.6", optional: true},
	wire.OpAddWatch:        {zookeeper: "3.6", keeper: "25.12", optional: true, asks: true},
	wire.OpGetEphemerals:   {zookeeper: "3.6", asks: true},
	wire.OpWhoAmI:          {zookeeper: "3.7", asks: true, proved: true},
}

// versions knows which servers have refused which requests.
type versions struct {
	mu      sync.Mutex
	hungUp  map[request]int    // how many times in a row
	refused map[request]string // the version that the server reported then

	any atomic.Bool // either may have entries
}

// request is a kind of request, by its opcode, to a server, named by [target.String].
type request struct {
	server string
	op     int32
}

// maxHangUps is how many times in a row a server may hang up at one kind of request. Servers that
// only speak ZooKeeper's protocol, such as ClickHouse Keeper, may know their version and yet not have
// every request of it. A server that restarts hangs up once.
const maxHangUps = 3

// maxUnusual bounds the ids of sessions that no ZooKeeper gives: its ids begin with the number of the server
// and the time. ClickHouse Keeper counts from 1.
const maxUnusual = 1 << 32

// IsUnusual reports whether no ZooKeeper gives a session of this id.
func IsUnusual(id int64) bool { return id > 0 && id < maxUnusual }

const (
	keeper = "ClickHouse Keeper "
	unsaid = "a server that does not say what it is, and numbers sessions otherwise than ZooKeeper"
)

// lacks returns why the server cannot have a kind of request, a [TooOldError], nil if it may. It waits until the server has told
// its version, if that decides; see decides. It fails when the connection, the context or the client ends first.
func (s *serverVersion) lacks(ctx context.Context, op int32) error {
	k, isKind := kinds[op]
	if !isKind || !s.decides(op, k) {
		return nil
	}
	if err := s.awaitVersion(ctx); err != nil {
		return err
	}
	is := s.now()
	why := &TooOldError{Server: s.server.String(), Needs: k.zookeeper, Keeper: k.keeper, Other: is.other}
	isOther := is.other != "" || s.unusual.Load()
	version, isKeeper := strings.CutPrefix(is.other, keeper)
	switch {
	case isKeeper:
		return unless(hasRequest(version, k.keeper), why)
	case isOther && is.version == unknownVersion && !hasRequest(kinds[wire.OpCreate2].keeper, k.keeper):
		// It may be a Keeper whose answer is late, and a hang-up would cost the session.
		why.Other = cmp.Or(is.other, unsaid)
		return why
	case !isOther && (op == wire.OpCreate2 || op == wire.OpCreateTTL):
		return nil // ZooKeeper hangs up at too much data, too, and these carry data
	case s.hasRefused(op, is.version): // one address may belong to several servers, of which one has told its version
		return why
	}
	why.Version = is.version
	if is.version == unknownVersion { // the request itself will show, if it may
		return unless(!k.proved, why)
	}
	return unless(!isOlderThan(is.version, k.zookeeper), why)
}

// decides reports whether the version of the server decides if a kind of request is sent: the server must prove that it has
// the request, or something says that it may have not.
func (s *serverVersion) decides(op int32, k kind) bool {
	if k.asks {
		return true
	}
	if s.versions.any.Load() {
		if hungUp, then := s.versions.of(request{s.server.String(), op}); hungUp || then != "" {
			return true
		}
	}
	// The client is useless without create2, so only a server that hangs up at it is asked.
	return op != wire.OpCreate2 && (s.unusual.Load() || s.now().other != "")
}

// unless returns nil if the server may have the request, and why not otherwise.
func unless(has bool, why *TooOldError) error {
	if has {
		return nil
	}
	return why
}

// isRefused reports whether a server that has refused a request counts as one without it. It may have been upgraded since, so
// this counts until it reports another version than it did then, "" if it has not refused.
func isRefused(then, version string) bool {
	return then != "" && (version == unknownVersion || version == then)
}

// has reports whether the server is known to have a kind of request.
func (s *serverVersion) has(op int32) bool {
	version := s.now().version
	if version == unknownVersion || isOlderThan(version, kinds[op].zookeeper) {
		return false
	}
	return !s.versions.any.Load() || !s.hasRefused(op, version)
}

// hasRefused reports whether the server has refused a kind of request, if this is its version.
func (s *serverVersion) hasRefused(op int32, version string) bool {
	_, then := s.versions.of(request{s.server.String(), op})
	return isRefused(then, version)
}

// hasRequest reports whether a version of ClickHouse Keeper has a request that came with another one.
func hasRequest(version, since string) bool {
	return since != "" && !isOlderThan(strings.TrimPrefix(version, "v"), since)
}

// checkZooKeeper returns a [TooOldError] unless the server is ZooKeeper. That is so if it says so, or if it says
// nothing and numbers sessions as ZooKeeper does. It waits for the answer.
func (s *serverVersion) checkZooKeeper(ctx context.Context) error {
	if err := s.awaitVersion(ctx); err != nil {
		return err
	}
	is := s.now()
	if is.other == "" && (is.version != unknownVersion || !s.unusual.Load()) {
		return nil
	}
	return &TooOldError{Server: s.server.String(), Other: cmp.Or(is.other, unsaid)}
}

// of returns whether a server has hung up since it last answered such a request, and the version that it reported when it
// refused one, "" if it has not.
func (v *versions) of(at request) (hungUp bool, then string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.hungUp[at] > 0, v.refused[at]
}

// noteHangUp counts that the server has hung up instead of answering these requests. If it does so each time
// at one kind of request, it counts as too old for it.
func (s *serverVersion) noteHangUp(unanswered []int32) {
	counted := make(map[int32]bool)
	for _, op := range unanswered {
		if k, isKind := kinds[op]; isKind && !counted[op] {
			counted[op] = true
			if s.countHangUp(op) {
				s.refuses(op, k.optional)
				s.log.Warn("a server hangs up each time at one kind of request: the client does not send it to this server any more",
					"server.address", s.server.String(), "opcode", op, "times", maxHangUps)
			}
		}
	}
}

// countHangUp reports whether a server has hung up often enough.
func (s *serverVersion) countHangUp(op int32) bool {
	v, at := s.versions, request{s.server.String(), op}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.hungUp == nil {
		v.hungUp = make(map[request]int)
	}
	v.any.Store(true)
	if v.hungUp[at]++; v.hungUp[at] < maxHangUps {
		return false
	}
	delete(v.hungUp, at)
	return true
}

// noteAnswer notes that a server answers this kind of request.
func (v *versions) noteAnswer(server target, op int32) {
	if _, isKind := kinds[op]; !isKind || !v.any.Load() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.hungUp, request{server.String(), op})
}

// refuses remembers that the server has refused a kind of request, or all of the same version of ZooKeeper.
func (s *serverVersion) refuses(op int32, all bool) {
	v := s.versions
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refused == nil {
		v.refused = make(map[request]string)
	}
	v.any.Store(true)
	for other, k := range kinds {
		if other == op || all && k.zookeeper == kinds[op].zookeeper {
			v.refused[request{s.server.String(), other}] = s.now().version
		}
	}
}

// noteTooOld remembers that the server has answered that it does not know a kind of request. It returns nil
// for one that is not asked about.
func (s *serverVersion) noteTooOld(op int32) *TooOldError {
	k := kinds[op]
	if !k.asks && !k.optional {
		return nil
	}
	s.refuses(op, true)
	return &TooOldError{Server: s.server.String(), Needs: k.zookeeper}
}

// awaitVersion waits until the server has been asked for its version.
func (s *serverVersion) awaitVersion(ctx context.Context) error {
	s.askVersion()
	select {
	case <-s.found:
		return nil
	case <-s.over.Done():
		return notSent(ErrNotConnected)
	case <-s.closed:
		return notSent(ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrAbandoned, context.Cause(ctx))
	}
}

// askVersion begins to ask the server for its version, once. That takes a connection of its own, so
// all callers share the question, and none of them ends it.
func (s *serverVersion) askVersion() {
	s.asked.Do(func() { go s.findVersion() })
}

func (s *serverVersion) findVersion() {
	answer, err := s.ask(s.over)
	if s.over.Err() != nil {
		return // that there was no answer says nothing
	}
	is := product{version: unknownVersion}
	if err == nil {
		is = parseAnswer(answer)
	}
	s.known.Store(&is)
	close(s.found)
}

// parseAnswer reads the answer to srvr. The version of anything but ZooKeeper is unknown.
func parseAnswer(answer string) product {
	line, _, _ := strings.Cut(answer, "\n")
	name, text, found := strings.Cut(line, " version: ")
	if !found || strings.EqualFold(name, "zookeeper") {
		return product{version: parseVersion(answer)}
	}
	return product{version: unknownVersion, other: strings.TrimSpace(name) + " " + strings.TrimSpace(text)}
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

// isOlderThan reports whether a version is known to be older than another one, by the first two numbers.
func isOlderThan(version, since string) bool {
	numbers := func(s string) (numbers [2]int, err error) {
		parts := strings.SplitN(s, ".", 3)
		for i := range min(len(parts), 2) {
			var e error
			numbers[i], e = strconv.Atoi(parts[i])
			err = cmp.Or(err, e)
		}
		return numbers, err
	}
	have, err := numbers(version)
	want, _ := numbers(since)
	return err == nil && slices.Compare(have[:], want[:]) < 0
}
