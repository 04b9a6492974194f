// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Admin is a server that answers four-letter words: [zkserver.Server], [ensemble.Server] or [Backend].
type Admin interface {
	// FourLetterWord returns the server's answer to a word such as mntr.
	FourLetterWord(ctx context.Context, word string) (string, error)
}

const (
	// cleanLimit bounds how long what is on its way out may take: a real server
	// closes connections some time after it has answered.
	cleanLimit = 10 * time.Second

	// pollInterval is the time between two questions to a server.
	pollInterval = 10 * time.Millisecond
)

// lingers is the newest sessions that no server has confirmed the end of, by the names of tests without their subtests.
type lingers struct {
	mu    sync.Mutex
	until map[string]linger
}

// linger is how long a session may live, by the clock of the test, which is another one in a bubble of testing/synctest.
type linger struct {
	timeout time.Duration
	end     time.Time
}

var lingering = lingers{until: make(map[string]linger)}

func (l *lingers) add(tb testing.TB, timeout time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if timeout > l.leftLocked(tb) {
		l.until[rootOf(tb)] = linger{timeout, time.Now().Add(timeout)}
	}
}

// left returns how much longer sessions of a test may live, 0 for none.
func (l *lingers) left(tb testing.TB) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leftLocked(tb)
}

func (l *lingers) leftLocked(tb testing.TB) time.Duration {
	one := l.until[rootOf(tb)]
	return min(max(0, time.Until(one.end)), one.timeout)
}

// rootOf names the test that a subtest is in: a server and its clients may belong to different ones.
func rootOf(tb testing.TB) string {
	root, _, _ := strings.Cut(tb.Name(), "/")
	return root
}

// AssertClean fails the test, but does not end it, if clients have left something at the server: a session,
// an ephemeral node or a watch. Things that are about to end get up to ten seconds. If no server has
// confirmed the end of the session of a [Client], since the test has cut it off, it gets the timeout of that
// session as well. The server must not be shared with other tests. It must run: a server that is stopped ends
// no session.
//
// It is for the end of a test, when all clients are closed. Cleanups run in reverse
// order, so it comes before the clients:
//
//	server := zktest.NewServer(t)
//	t.Cleanup(func() { zktest.AssertClean(t, server) })
//	client := zktest.Client(t, server)
func AssertClean(tb testing.TB, server Admin) {
	tb.Helper()
	limit := cleanLimit + lingering.left(tb)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), startTimeout+limit)
	defer cancel()
	deadline := time.Now().Add(limit)
	for {
		left, err := countsOf(ctx, server)
		switch {
		case err != nil:
			tb.Errorf("zktest: what clients have left: %v", err)
			return
		case left == Counts{}:
			return
		case time.Now().After(deadline):
			tb.Errorf("zktest: clients have left %+v:\n%s", left, describe(ctx, server))
			return
		}
		<-time.After(pollInterval)
	}
}

// countsOf asks a server of any kind. ZooKeeper 3.5 does not count sessions in mntr, but names them in dump.
func countsOf(ctx context.Context, server Admin) (Counts, error) {
	answer, err := server.FourLetterWord(ctx, "mntr")
	if err != nil {
		return Counts{}, err
	}
	var c Counts
	wanted := map[string]*int{
		"zk_ephemerals_count": &c.Ephemerals, "zk_watch_count": &c.Watches, sessionsKey: &c.Sessions,
	}
	for line := range strings.Lines(answer) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		into, ok := wanted[key]
		if !ok {
			continue
		}
		if *into, err = strconv.Atoi(value); err != nil {
			return Counts{}, fmt.Errorf("mntr: %s: %w", key, err)
		}
		delete(wanted, key)
	}
	if wanted[sessionsKey] != nil && len(wanted) == 1 {
		c.Sessions, err = sessionsInDump(ctx, server)
		return c, err
	}
	if len(wanted) > 0 {
		return Counts{}, fmt.Errorf("mntr: no counts in %q", answer)
	}
	return c, nil
}

// sessionsKey is the count of sessions in mntr, since ZooKeeper 3.6.
const sessionsKey = "zk_global_sessions"

// sessionSets finds the number of sessions in dump. A server that expires sessions writes it behind the number of sets
// that expire together, a follower writes it alone.
var sessionSets = regexp.MustCompile(`(?m)^(?:(?:Global )?Session Sets \(\d+\)/|Global Sessions)\((\d+)\):`)

func sessionsInDump(ctx context.Context, server Admin) (int, error) {
	answer, err := server.FourLetterWord(ctx, "dump")
	if err != nil {
		return 0, err
	}
	found := sessionSets.FindStringSubmatch(answer)
	if found == nil {
		return 0, fmt.Errorf("mntr has no %s, and dump no number of sessions: %q", sessionsKey, answer)
	}
	return strconv.Atoi(found[1])
}

// describe names the sessions, nodes and watched paths, for a failure message.
func describe(ctx context.Context, server Admin) string {
	var b strings.Builder
	for _, word := range []string{"dump", "wchp"} {
		answer, err := server.FourLetterWord(ctx, word)
		if err != nil {
			answer = err.Error() + "\n"
		}
		b.WriteString(answer)
	}
	return b.String()
}
