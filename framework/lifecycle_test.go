// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zktest"
)

func TestConnectStrings(t *testing.T) {
	for s, want := range map[string][]string{
		"a":                {"a:2181"},
		"a:1":              {"a:1"},
		"a:1,b,c:3":        {"a:1", "b:2181", "c:3"},
		"a:1, b:2":         {"a:1", "b:2"},
		"a:1/":             {"a:1"},
		"a:1/x/y":          {"a:1"},
		"::1":              {"[::1]:2181"},
		"[::1]":            {"[::1]:2181"},
		"[::1]:7,10.0.0.1": {"[::1]:7", "10.0.0.1:2181"},
	} {
		f, err := framework.New(s)
		require.NoError(t, err, s)
		require.Equal(t, want, f.Servers(), s)
	}
	for s, says := range map[string]string{
		"":          "empty server",
		"/x":        "empty server",
		"a:1,":      "empty server",
		"a:1,,b:1":  "empty server",
		":1":        "no host",
		"a:":        `port ""`,
		"a:0":       `port "0"`,
		"a:65536":   `port "65536"`,
		"a:x":       `port "x"`,
		"[::1]x":    "server",
		"0[":        `host "0["`,
		"a b:1":     `host "a b"`,
		"a@b:1":     `host "a@b"`,
		"a\xff":     "expected a name or an address",
		"a:1:2":     "expected an IPv6 address",
		"[a]:1:2":   "server",
		"[a:b]:1":   "expected an IPv6 address",
		"a:1/x/":    "chroot",
		"a:1//":     "chroot",
		"a:1/../b":  "chroot",
		"a:1/a\x00": "chroot",

		"zk1:2181/app,zk2:2181/app": "expected one chroot, after the last server",
		"zk1/app,zk2":               "expected one chroot, after the last server",
		"a:1/app ":                  "no blank before or after",
		"a:1/ app/b":                "no blank before or after",
		"http://zk1:2181":           `the scheme "http", expected none: host:port,host:port/chroot`,
		"zookeeper://zk1:2181/app":  `the scheme "zookeeper"`,
	} {
		_, err := framework.New(s)
		require.ErrorContains(t, err, says, "%q", s)
	}
}

func TestLifecycleOptions(t *testing.T) {
	policy, log := retry.None(), slog.New(slog.DiscardHandler)
	f := must.Get(framework.New("a", framework.WithRetryPolicy(policy), framework.WithLogger(log),
		framework.WithErrorPolicy(framework.SessionErrorPolicy), framework.WithMaxReplySize(1024),
		framework.WithMaxRequestSize(1024)))(t)
	require.Equal(t, policy, f.RetryPolicy())
	require.False(t, f.Logger().Enabled(t.Context(), slog.LevelError), "what discards everything is not queued for")
	require.Equal(t, framework.SessionErrorPolicy, f.ErrorPolicy())
	require.Equal(t, 1024, f.MaxRequestSize())
}

func TestStartTwice(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t).Addr())
	require.ErrorContains(t, f.Start(), "already started")
	require.NoError(t, f.BlockUntilConnected(t.Context()))
}

// Curator: TestFramework.testBackgroundCreateWithConcurrentClose and the like.
func TestCloseIsIdempotentAndCutsCallsShort(t *testing.T) {
	for range 20 {
		server := zktest.NewServer(t)
		f := zktest.Client(t, server.Addr())
		mustCreate(t, f, "/a")
		var group sync.WaitGroup
		failures := make(chan error, 100)
		for _, verb := range []string{"get", "set", "create protected", "pipeline", "delete guaranteed", "exists"} {
			group.Go(func() {
				for {
					err := verbs[verb](t.Context(), f, "/a")
					if err != nil && !errors.Is(err, framework.ErrNoNode) {
						failures <- err
						return
					}
				}
			})
		}
		must.Get(f.Exists(t.Context(), "/a"))(t)
		for range 3 {
			group.Go(func() {
				if err := f.Close(); err != nil {
					failures <- err
				}
			})
		}
		group.Wait()
		close(failures)
		for err := range failures {
			require.ErrorIs(t, err, framework.ErrClosed)
		}
		require.Empty(t, server.Sessions())
	}
}

func TestLifecycleErrors(t *testing.T) {
	for _, err := range []error{nil, context.Canceled, framework.ErrNoNode, framework.ErrClosed, framework.ServerError(-5)} {
		require.False(t, framework.Retryable(err), "%v", err)
		require.False(t, framework.OutcomeUnknown(err), "%v", err)
	}
	for _, err := range []error{
		framework.ErrNotConnected, framework.ErrConnectionLost, framework.ErrSessionExpired, framework.ErrSessionMoved,
		framework.ServerError(-4), framework.ServerError(-7), framework.ServerError(-127),
		&framework.OpError{Op: "get", Path: "/a", Err: framework.ErrConnectionLost},
	} {
		require.True(t, framework.Retryable(err), "%v", err)
	}
	require.EqualError(t, framework.ServerError(-6), "server error -6 (unimplemented)")
	require.EqualError(t, framework.ServerError(-999), "server error -999")
	for _, reason := range []framework.LostReason{
		framework.ReasonSuspended, framework.ReasonLeaseEnd, framework.ReasonSessionExpired, framework.ReasonNodeDeleted,
		framework.ReasonClosed,
	} {
		err := &framework.LostError{Reason: reason}
		require.NotEqual(t, "lost: ", err.Error())
		expired := reason == framework.ReasonLeaseEnd || reason == framework.ReasonSessionExpired
		require.Equal(t, expired, errors.Is(err, framework.ErrSessionExpired))
		require.Equal(t, reason == framework.ReasonClosed, errors.Is(err, framework.ErrClosed))
	}
}

// safeBuffer is a log that several goroutines write.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestPasswordIsACopy(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t).Addr())
	clear(f.Session().Password())
	require.NotEqual(t, make([]byte, 16), f.Session().Password())
}
