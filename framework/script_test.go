// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// script is one row under way. Its methods write down what a call has returned.
type script struct {
	*testing.T
	ctx           context.Context
	server        zktest.Backend
	connectString string
	f             *framework.Framework // the first client; /node exists with "data"
	clients       []*framework.Framework
	out           strings.Builder
}

// client returns one more client of the same chroot.
func (s *script) client(opts ...framework.Option) *framework.Framework {
	s.Helper()
	f := zktest.Client(s, s.connectString, opts...)
	s.clients = append(s.clients, f)
	return f
}

var uuids = regexp.MustCompile(uuidPattern)

func (s *script) sayf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	s.out.WriteString(uuids.ReplaceAllString(line, "UUID") + "\n")
}

// failed writes an error down and tells whether there is one.
func (s *script) failed(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, framework.ErrInvalidPath) || errors.Is(err, framework.ErrInvalidOption) {
		s.sayf("refused, %s: %v", strings.Join(kindsOf(err), ", "), err) // by the client, in its own words
		return true
	}
	line := "failed: " + strings.Join(kindsOf(err), ", ")
	var op *framework.OpError
	if errors.As(err, &op) {
		line += fmt.Sprintf(" (%s %s)", op.Op, op.Path)
	}
	if framework.OutcomeUnknown(err) {
		line += ", outcome unknown"
	}
	if framework.Retryable(err) {
		line += ", retryable"
	}
	s.sayf("%s", line)
	return true
}

func (s *script) done(err error) {
	if !s.failed(err) {
		s.sayf("done")
	}
}

func (s *script) created(path string, err error) {
	if !s.failed(err) {
		s.sayf("created %s", path)
	}
}

func (s *script) data(data []byte, err error) {
	if s.failed(err) {
		return
	}
	if data == nil {
		s.sayf("no data")
		return
	}
	s.sayf("data %q", data)
}

func (s *script) stat(stat *framework.Stat, err error) {
	switch {
	case s.failed(err):
	case stat == nil:
		s.sayf("no node")
	default:
		s.sayf("stat %s", s.normal(*stat))
	}
}

// normal is a Stat without times and ids, but with how they relate.
func (s *script) normal(stat framework.Stat) string {
	owner := "nobody"
	for i, f := range s.clients {
		if stat.EphemeralOwner != 0 && stat.EphemeralOwner == f.Session().ID() {
			owner = fmt.Sprintf("client %d", i+1)
		}
	}
	return fmt.Sprintf("version %d, cversion %d, aversion %d, owner %s, %d bytes, %d children, created %t, changed %t, children changed %t",
		stat.Version, stat.Cversion, stat.Aversion, owner, stat.DataLength, stat.NumChildren,
		stat.Ctime > 0 && stat.Czxid > 0, stat.Mzxid > stat.Czxid && stat.Mtime >= stat.Ctime, stat.Pzxid > stat.Czxid)
}

func (s *script) names(names []string, err error) {
	if !s.failed(err) {
		slices.Sort(names)
		s.sayf("names %q", names)
	}
}

func (s *script) acl(acl []framework.ACL, err error) {
	if !s.failed(err) {
		s.sayf("acl %v", acl)
	}
}

func (s *script) results(results []framework.OpResult, err error) {
	if s.failed(err) {
		return
	}
	for i, r := range results {
		line := fmt.Sprintf("result %d", i)
		if r.Path != "" {
			line += " " + r.Path
		}
		if r.Stat != nil {
			line += " stat " + s.normal(*r.Stat)
		}
		s.sayf("%s", line)
	}
	s.sayf("%d results", len(results))
}

func (s *script) event(e framework.Event) {
	s.sayf("event %s %s %s", e.Type, e.Path, strings.Join(kindsOf(e.Err), ", "))
}

// fired waits for a watch and writes its event down.
func (s *script) fired(w *framework.Watch) {
	s.Helper()
	s.event(fired(s.T, w))
}

// next waits for what comes from a listener.
func next[T any](s *script, from <-chan T) T {
	s.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(s, "the listener has not been told")
		panic("not reached")
	}
}

// awaitGone waits for the end of a node.
func (s *script) awaitGone(path string) {
	s.Helper()
	s.untilGone(path)
	s.sayf("%s is gone", path)
}

func (s *script) untilGone(path string) {
	s.Helper()
	for {
		var w *framework.Watch
		stat := must.Get(s.f.Exists(s.ctx, path, framework.Watched(&w)))(s)
		if stat == nil {
			w.Cancel()
			return
		}
		fired(s.T, w)
	}
}

// kinds are the classes of errors.
var kinds = []struct {
	name string
	err  error
}{
	{"ErrNotStarted", framework.ErrNotStarted},
	{"ErrClosed", framework.ErrClosed},
	{"ErrNotConnected", framework.ErrNotConnected},
	{"ErrConnectionLost", framework.ErrConnectionLost},
	{"ErrSessionEnded", framework.ErrSessionEnded},
	{"ErrInvalidPath", framework.ErrInvalidPath},
	{"ErrInvalidOption", framework.ErrInvalidOption},
	{"ErrTooLarge", framework.ErrTooLarge},
	{"ErrMalformedReply", framework.ErrMalformedReply},
	{"ErrCleanupPending", framework.ErrCleanupPending},
	{"ErrNoNode", framework.ErrNoNode},
	{"ErrNodeExists", framework.ErrNodeExists},
	{"ErrBadVersion", framework.ErrBadVersion},
	{"ErrNotEmpty", framework.ErrNotEmpty},
	{"ErrNoAuth", framework.ErrNoAuth},
	{"ErrAuthFailed", framework.ErrAuthFailed},
	{"ErrInvalidACL", framework.ErrInvalidACL},
	{"ErrNoChildrenForEphemerals", framework.ErrNoChildrenForEphemerals},
	{"ErrSessionExpired", framework.ErrSessionExpired},
	{"ErrSessionMoved", framework.ErrSessionMoved},
	{"ErrCompression", framework.ErrCompression},
	{"ErrUnsupported", framework.ErrUnsupported},
	{"ErrNotReadOnly", framework.ErrNotReadOnly},
	{"ErrBadArguments", zk.ErrBadArguments},
	{"context.Canceled", context.Canceled},
}

// kindsOf names what an error is.
func kindsOf(err error) []string {
	var names []string
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			names = append(names, k.name)
		}
	}
	var code framework.ServerError
	if errors.As(err, &code) {
		names = append(names, fmt.Sprintf("ServerError(%d)", int32(code)))
	}
	if err != nil && names == nil {
		names = append(names, err.Error())
	}
	return names
}
