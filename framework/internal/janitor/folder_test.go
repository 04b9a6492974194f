// SPDX-License-Identifier: Apache-2.0

package janitor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// admitLater asks for room on a goroutine, which is admitted or has given up when the channel has a value.
func (c *client) admitLater(ctx context.Context, name string) <-chan bool {
	admitted := make(chan bool, 1)
	go func() { admitted <- c.Admit(ctx, name) }()
	synctest.Wait()
	return admitted
}

// admitNow returns how many creations a folder has room for.
func (c *client) admitNow(t *testing.T, name string) (n int) {
	t.Helper()
	for {
		ctx, cancel := context.WithCancel(t.Context())
		admitted := c.admitLater(ctx, name)
		cancel()
		if !<-admitted {
			return n
		}
		n++
	}
}

// TestFolderWindow: it grows while all of it is used and the answers come in time, up to a bound, and
// halves with each caller that has gone before the answer.
func TestFolderWindow(t *testing.T) {
	inBubble(t, func(t *testing.T, c *client) {
		require.Equal(t, firstWindow, c.admitNow(t, "/a"))
		require.Equal(t, firstWindow, c.admitNow(t, "/b"), "another folder")
		for range 2 * maxWindow {
			c.Leave("/a", Answered)
			c.admitNow(t, "/a")
		}
		c.mu.Lock()
		require.Equal(t, maxWindow, c.folders["/a"].underWay)
		c.mu.Unlock()
		c.Leave("/a", Failed)
		require.Equal(t, 1, c.admitNow(t, "/a"))
		for window := maxWindow; window > 1; window /= 2 {
			c.Leave("/a", Abandoned)
		}
		for range maxWindow - 6 {
			require.Zero(t, c.admitNow(t, "/a"))
			c.Leave("/a", Failed)
		}
		require.Zero(t, c.admitNow(t, "/a"))
		c.Leave("/a", Failed)
		require.Equal(t, 1, c.admitNow(t, "/a"), "one is always admitted")
		c.Leave("/a", Failed)
		require.Equal(t, 1, c.admitNow(t, "/a"), "the window is remembered")
	})
}

// TestFolderCreationsAreAdmittedInOrder, each when there is room for it.
func TestFolderCreationsAreAdmittedInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, c *client) {
		require.Equal(t, firstWindow, c.admitNow(t, "/a"))
		ctx, giveUp := context.WithCancel(t.Context())
		first, second, third := c.admitLater(t.Context(), "/a"), c.admitLater(ctx, "/a"), c.admitLater(t.Context(), "/a")
		c.Leave("/a", Failed)
		require.True(t, <-first)
		giveUp()
		require.False(t, <-second)
		synctest.Wait()
		require.Empty(t, third)
		c.Leave("/a", Failed)
		require.True(t, <-third)
	})
}

// TestFolderCleanupsTakeRoom until they have succeeded or failed once.
func TestFolderCleanupsTakeRoom(t *testing.T) {
	for name, err := range map[string]error{"done": nil, "fails again and again": errBusy} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *client) {
				for range firstWindow {
					require.True(t, c.Add("/a", func(ctx context.Context) error {
						select {
						case <-time.After(time.Hour):
							return err
						case <-ctx.Done():
							return ctx.Err()
						}
					}))
				}
				began := time.Now()
				require.True(t, c.Admit(t.Context(), "/a"))
				require.Equal(t, time.Hour, time.Since(began))
			})
		})
	}
}

// TestFolderNoRoomWithoutAConnection: a creation that waits for room returns, and waits for the connection.
func TestFolderNoRoomWithoutAConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, c *client) {
		require.Equal(t, firstWindow, c.admitNow(t, "/a"))
		waiting := c.admitLater(t.Context(), "/a")
		time.Sleep(time.Minute)
		require.Empty(t, waiting)
		c.disconnect()
		time.Sleep(lookAgain)
		require.False(t, <-waiting)
		waiting = c.admitLater(t.Context(), "/a")
		c.end()
		require.False(t, <-waiting)
	})
}

// TestFolderIsForgotten when nothing is under way, unless its window says something about the server.
func TestFolderIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, c *client) {
		require.True(t, c.Admit(t.Context(), "/a"))
		c.Leave("/a", Answered)
		require.Empty(t, c.folders)
		for i := range 10 * maxIdle {
			name := string(rune('a' + i))
			require.True(t, c.Admit(t.Context(), name))
			c.Leave(name, Abandoned)
		}
		require.Len(t, c.folders, maxIdle)
	})
}
