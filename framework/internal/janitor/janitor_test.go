// SPDX-License-Identifier: Apache-2.0

package janitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

var errBusy = errors.New("busy")

// client is what a janitor sees of one.
type client struct {
	*Janitor
	log bytes.Buffer
	end context.CancelFunc

	running sync.WaitGroup

	mu        sync.Mutex
	connected chan struct{}
}

// disconnect returns a function that connects again.
func (c *client) disconnect() (connect func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	connected := make(chan struct{})
	c.connected = connected
	return func() { close(connected) }
}

func (c *client) whenConnected() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected
}

// inBubble runs a test with a connected client on fake time.
func inBubble(t *testing.T, test func(t *testing.T, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := new(client)
		c.disconnect()()
		ctx, end := context.WithCancel(t.Context())
		c.end = end
		c.Janitor = New(Config{
			Context:   ctx,
			Start:     func(run func()) bool { c.running.Go(run); return true },
			Connected: c.whenConnected,
			MayPass:   func(err error) bool { return errors.Is(err, errBusy) || errors.Is(err, zk.ErrNoAuth) },
			Log:       slog.New(slog.NewTextHandler(&c.log, nil)),
		})
		test(t, c)
		end()
		c.running.Wait()
	})
}

// failing returns a cleanup that fails a number of times before it succeeds.
func failing(times int64, with error) (Cleanup, *atomic.Int64) {
	tries := new(atomic.Int64)
	return func(context.Context) error {
		if tries.Add(1) <= times {
			return with
		}
		return nil
	}, tries
}

func TestJanitorCleanupIsRepeatedUntilItSucceeds(t *testing.T) {
	for name, with := range map[string]error{"busy": errBusy, "refused": zk.ErrNoAuth} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *client) {
				cleanup, tries := failing(9, fmt.Errorf("delete /a/b: %w", with))
				require.True(t, c.Add("/a", cleanup))
				synctest.Wait()
				n, _ := c.Unfinished()
				require.Equal(t, 1, n)
				time.Sleep(10 * maxRefusedPause)
				synctest.Wait()
				require.EqualValues(t, 10, tries.Load())
				n, _ = c.Unfinished()
				require.Zero(t, n)
				require.Equal(t, with == zk.ErrNoAuth, strings.Contains(c.log.String(), "cleanup refused")) //nolint:errorlint // the row itself
			})
		})
	}
}

// What fails for long is told once a minute, however many fail.
func TestJanitorTellsOfCleanupsThatFail(t *testing.T) {
	inBubble(t, func(t *testing.T, c *client) {
		for range 100 {
			cleanup, _ := failing(1<<40, errBusy)
			require.True(t, c.Add("/a", cleanup))
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		require.Empty(t, c.log.String())
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		told := strings.Count(c.log.String(), "cleanups fail")
		require.GreaterOrEqual(t, told, 8)
		require.LessOrEqual(t, told, 11)
		require.Contains(t, c.log.String(), "unfinished=100")
	})
}

func TestJanitorHopelessCleanupIsGivenUp(t *testing.T) {
	for name, row := range map[string]struct {
		err    error
		logged bool
	}{"gone already": {zk.ErrNoNode, false}, "wrong": {zk.ErrBadArguments, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *client) {
				cleanup, tries := failing(1, row.err)
				require.True(t, c.Add("/a", cleanup))
				time.Sleep(time.Hour)
				synctest.Wait()
				require.EqualValues(t, 1, tries.Load())
				n, _ := c.Unfinished()
				require.Zero(t, n)
				require.Equal(t, row.logged, strings.Contains(c.log.String(), "cleanup failed and is given up"))
			})
		})
	}
}

// TestJanitorNoCleanupWithoutAConnection, and none after the end of the client.
func TestJanitorNoCleanupWithoutAConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, c *client) {
		connect := c.disconnect()
		first, tries := failing(0, nil)
		require.True(t, c.Add("/a", first))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, tries.Load())
		n, oldest := c.Unfinished()
		require.Equal(t, 1, n)
		require.Equal(t, time.Minute, oldest)
		connect()
		synctest.Wait()
		require.EqualValues(t, 1, tries.Load())

		c.disconnect()
		late, tries := failing(0, nil)
		require.True(t, c.Add("/a", late))
		n, _ = c.Unfinished()
		require.Equal(t, 1, n)
		c.end()
		require.False(t, c.Add("/a", late), "no promise of a deletion that no goroutine makes")
		n, oldest = c.Unfinished()
		require.Zero(t, n)
		require.Zero(t, oldest)
		c.running.Wait()
		require.Zero(t, tries.Load())
	})
}
