// SPDX-License-Identifier: Apache-2.0

package attempt_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// client is never connected: a Loop takes no more than a logger from it.
func client(t *testing.T, opts ...framework.Option) *framework.Framework {
	t.Helper()
	f := must.Get(framework.New("127.0.0.1:1", opts...))(t)
	return f
}

// times returns work that succeeds the nth time, and when it was called.
func times(n int, failure func(i int) error) (work func(context.Context) error, at *[]int64) {
	began, calls := time.Now(), []int64{}
	return func(context.Context) error {
		calls = append(calls, time.Since(began).Milliseconds())
		if len(calls) == n {
			return nil
		}
		return failure(len(calls))
	}, &calls
}

func TestLoopPauses(t *testing.T) {
	refused := func(int) error { return framework.ErrNoAuth }
	for _, c := range []struct {
		name    string
		longest time.Duration
		failure func(int) error
		calls   []int64 // in ms
	}{
		{"each twice the one before", 0, refused, []int64{0, 100, 300, 700, 1500}},
		{"up to a bound", 200 * time.Millisecond, refused, []int64{0, 100, 300, 500, 700}},
		{"up to half a minute", 0, refused, []int64{0, 100, 300, 700, 1500, 3100, 6300, 12700, 25500, 51100, 81100, 111100}},
		{"from the shortest after an attempt that has lasted", 0, func(i int) error {
			if i == 3 {
				time.Sleep(31 * time.Second)
			}
			return framework.ErrNoAuth
		}, []int64{0, 100, 300, 31400, 31600}},
		{"after a panic", 0, func(int) error { panic("boom") }, []int64{0, 100, 300}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work, at := times(len(c.calls), c.failure)
				loop := attempt.Loop{Client: client(t), Longest: c.longest}

				require.NoError(t, loop.Do(t.Context(), work))

				require.Equal(t, c.calls, *at)
				closeClient(t, loop.Client)
			})
		})
	}
}

func closeClient(t *testing.T, f *framework.Framework) {
	t.Helper()
	require.NoError(t, f.Close())
}

func TestLoopEnds(t *testing.T) {
	why := errors.New("why")
	for _, c := range []struct {
		name  string
		fails func(*framework.Framework) error
		told  error
		want  error
		calls int
	}{
		{"with the client", func(c *framework.Framework) error { return errors.Join(why, c.Close()) }, nil, framework.ErrClosed, 0},
		{"with a permanent error", func(*framework.Framework) error { return backoff.Permanent(why) }, why, why, 1},
		{"with the context", func(*framework.Framework) error { return framework.ErrNoAuth }, framework.ErrNoAuth, context.DeadlineExceeded, 10},
		{"not with another client", func(*framework.Framework) error { return framework.ErrClosed }, framework.ErrClosed, context.DeadlineExceeded, 10},
		{"not with the credentials of another client", func(*framework.Framework) error { return framework.ErrAuthFailed }, framework.ErrAuthFailed, context.DeadlineExceeded, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var told []error
				loop := attempt.Loop{Client: client(t), Failed: func(err error) { told = append(told, err) }}

				err := loop.Do(ctx, func(context.Context) error { return c.fails(loop.Client) })

				require.ErrorIs(t, err, c.want)
				require.Len(t, told, c.calls)
				if c.calls > 0 {
					require.ErrorIs(t, told[0], c.told)
				}
				closeClient(t, loop.Client)
			})
		})
	}
}

// TestLoopPauseEndsWithTheClient, or a goroutine would outlive the client by half a minute.
func TestLoopPauseEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no server") }
		f := client(t, framework.WithDialer(refuse), framework.WithRetryPolicy(retry.None()), framework.WithConnectionTimeout(time.Millisecond))
		require.NoError(t, f.Start())
		ended := make(chan error, 1)
		loop := attempt.Loop{Client: f}
		go func() {
			ended <- loop.Do(context.Background(), func(ctx context.Context) error { return f.Sync(ctx, "/") })
		}()
		time.Sleep(time.Minute) // into the pause after the attempt that comes after 51 s
		closeClient(t, f)
		closed := time.Now()

		require.ErrorIs(t, <-ended, framework.ErrClosed)

		require.Less(t, time.Since(closed), time.Second)
	})
}

func TestLoopLogsEachReasonOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f := client(t, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		work, _ := times(7, func(i int) error {
			if i > 4 {
				return framework.ErrNoAuth
			}
			return framework.ErrNotEmpty
		})
		loop := attempt.Loop{Client: f, Path: "/a", Warning: "cannot do it"}

		require.NoError(t, loop.Do(t.Context(), work))

		synctest.Wait()
		closeClient(t, f)
		require.Equal(t, 2, strings.Count(log.String(), "cannot do it"), log.String())
		require.Contains(t, log.String(), "curator.path=/a failures=5")
	})
}

// waits repeat work until it succeeds.
var waits = map[string]func(client *framework.Framework, work func(context.Context) error) error{
	"of a loop": func(client *framework.Framework, work func(context.Context) error) error {
		loop := attempt.Loop{Client: client}
		return loop.Do(context.Background(), work)
	},
	"of a pause": func(client *framework.Framework, work func(context.Context) error) error {
		var p attempt.Pause
		for {
			err := work(context.Background())
			if err == nil {
				return nil
			}
			p.Wait(context.Background(), client, err)
		}
	},
}

// What must come back after the loss of the quorum does so, too.
func TestWaitsEndWithTheServerWithoutAQuorum(t *testing.T) {
	for name, repeat := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				client := zktest.Client(t, server, framework.WithReadOnly(), framework.WithSessionTimeout(5*time.Second))
				regain := server.LoseQuorum()
				zktest.AwaitState(t, client, framework.ReadOnly)
				succeeded := make(chan error, 1)
				go func() {
					succeeded <- repeat(client, func(ctx context.Context) error { return client.Sync(ctx, "/") })
				}()
				time.Sleep(5*time.Minute + 17*time.Second)
				regain()
				zktest.AwaitState(t, client, framework.Connected, framework.Reconnected)
				back := time.Now()

				require.NoError(t, <-succeeded)

				require.Less(t, time.Since(back), time.Second)
			})
		})
	}
}

// What must come back after an outage comes with the connection, and not a long pause later.
func TestWaitsEndWithTheOutage(t *testing.T) {
	for name, repeat := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				client := zktest.Client(t, server, framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.None()))
				require.NoError(t, server.Stop())
				zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
				succeeded := make(chan error, 1)
				go func() {
					succeeded <- repeat(client, func(ctx context.Context) error {
						_, err := client.Exists(ctx, "/")
						return err
					})
				}()
				time.Sleep(5*time.Minute + 17*time.Second)
				require.NoError(t, server.Restart())
				require.NoError(t, client.BlockUntilConnected(t.Context()))
				back := time.Now()

				require.NoError(t, <-succeeded)

				require.Less(t, time.Since(back), time.Second)
			})
		})
	}
}
