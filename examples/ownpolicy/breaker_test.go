// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBreakerOpensAndCloses counts the retries of calls before, during and after an outage.
func TestBreakerOpensAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		retries := 0
		policy := &breaker{limit: 2, closed: retry.PolicyFunc(func(attempt int, _ time.Duration, _ error) (time.Duration, bool) {
			if attempt == 3 {
				return 0, false
			}
			retries++
			return time.Second, true
		})}
		client := zktest.Client(t, server, framework.WithRetryPolicy(policy), framework.WithConnectionTimeout(time.Second))
		call := func(wantErr error, wantRetries int) {
			t.Helper()
			retries = 0
			_, err := client.Get(t.Context(), "/absent")
			require.ErrorIs(t, err, wantErr)
			require.Equal(t, wantRetries, retries)
		}
		call(framework.ErrNoNode, 0)
		for range 2 {
			allow := server.Refuse()
			server.Cut(client.Session().ID(), 1)
			zktest.AwaitState(t, client, framework.Suspended)

			call(framework.ErrNotConnected, 3)
			require.False(t, policy.isOpen())
			call(framework.ErrNotConnected, 3)
			require.True(t, policy.isOpen())
			call(framework.ErrNotConnected, 0)
			for _, limit := range []time.Duration{0, time.Millisecond} { // over before the call, and during it
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				_, err := client.Get(ctx, "/absent")
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.True(t, policy.isOpen(), "a call whose caller gave up says nothing")
			}

			allow()
			zktest.AwaitState(t, client, framework.Reconnected, framework.Connected)
			call(framework.ErrNoNode, 0)
			require.False(t, policy.isOpen(), "an answer is a success")
		}
	})
}

func TestBreakerProgramSaysHowItsCallsWent(t *testing.T) {
	server := zktest.NewServer(t)
	ctx, stop := context.WithCancel(t.Context())
	said := make(output, 100)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, said, server.Addr(), time.Millisecond) }()
	for range 2 {
		require.Regexp(t, `^open=false after .*: <nil>$`, zktest.Await(t, said, "a call"))
	}
	stop()
	require.NoError(t, zktest.Await(t, ended, "the end"))
}

// output has the lines of the program.
type output chan string

func (o output) Write(line []byte) (int, error) {
	o <- strings.TrimSuffix(string(line), "\n")
	return len(line), nil
}
