// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/locktest"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPoolDriverIsCorrect(t *testing.T) {
	t.Run("one tenant", func(t *testing.T) { locktest.CheckDriver(t, newDriver(), "blue"+separator, 2) })
	t.Run("three tenants", func(t *testing.T) {
		locktest.CheckDriver(t, &mixed{driver: newDriver()}, separator, 2)
	})
}

// mixed is the driver with contenders of several tenants at one lock.
type mixed struct {
	driver

	made atomic.Int64
}

func (m *mixed) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (locks.LockNode, error) {
	folder, _ := framework.SplitPath(path)
	tenant := []string{"blue", "green", "red-job-1234567890"}[m.made.Add(1)%3]
	return m.driver.CreatesTheLock(ctx, client, session, folder+"/"+tenant+separator, data)
}

// TestPoolRunsOneJobOfEachTenant: a job waits for its tenant's job although a worker is free, and a
// job of another tenant enters before it.
func TestPoolRunsOneJobOfEachTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		clients := []*framework.Framework{zktest.Client(t, server), zktest.Client(t, server)}
		arrived := 0
		entered := make(chan string, 5)
		leave := make(map[string]chan struct{})
		arrive := func(job, tenant string) {
			worker, err := newPool(clients[arrived%2], "/pool", tenant, 2)
			require.NoError(t, err)
			arrived++
			done := make(chan struct{})
			leave[job] = done
			go func() {
				assert.NoError(t, locks.Do(t.Context(), worker, func(context.Context) error {
					entered <- job
					<-done
					return nil
				}))
			}()
		}
		enters := func(want ...string) {
			t.Helper()
			synctest.Wait()
			require.Len(t, entered, len(want))
			for _, job := range want {
				require.Equal(t, job, <-entered)
			}
		}
		arrive("blue 1", "blue")
		enters("blue 1")
		arrive("blue 2", "blue")
		enters() // a worker is free, but not for blue
		arrive("green 1", "green")
		enters("green 1")
		arrive("red 1", "red")
		enters() // no worker is free
		arrive("green 2", "green")
		enters()
		close(leave["green 1"])
		enters("red 1") // it came before the second job of green
		close(leave["blue 1"])
		enters("blue 2")
		close(leave["red 1"])
		enters("green 2")
		close(leave["green 2"])
		close(leave["blue 2"])
		enters()
	})
}

func TestPoolProgramRunsAJob(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, server.Addr(), "green", time.Millisecond))
	require.Regexp(t, "^green works, token [0-9]+\n$", out.String())
}
