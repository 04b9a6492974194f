// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestProtectionLateReplyTellsWhatToDelete: the caller of a protected create waits no longer than
// its context, and the node goes as soon as the reply has told its path, without a search.
func TestProtectionLateReplyTellsWhatToDelete(t *testing.T) {
	const roundTrip = time.Second
	for name, c := range map[string]struct {
		folder   string
		requests map[zkserver.OpCode]int
	}{
		"created": {"/p", map[zkserver.OpCode]int{zkserver.OpCreate2: 1, zkserver.OpDelete: 1}},
		"refused": {"/none", map[zkserver.OpCode]int{zkserver.OpCreate2: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				link := zktest.NewProxy(t, server)
				near, f := zktest.Client(t, server), zktest.Client(t, link)
				mustCreate(t, near, "/p")
				link.Delay(roundTrip / 2)
				made := make(map[zkserver.OpCode]int)
				remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.SessionID == f.Session().ID() && r.Op != zkserver.OpPing {
						made[r.Op]++
					}
					return zkserver.Pass
				})
				ctx, cancel := context.WithTimeout(t.Context(), roundTrip/4)
				defer cancel()
				began := time.Now()
				_, err := f.Create(ctx, c.folder+"/n-", nil, framework.WithProtection(), framework.WithMode(framework.PersistentSequential))
				require.Equal(t, roundTrip/4, time.Since(began))
				require.ErrorIs(t, err, framework.ErrCleanupPending)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.True(t, framework.OutcomeUnknown(err))
				time.Sleep(2 * roundTrip)
				synctest.Wait()
				remove()
				require.Equal(t, c.requests, made)
				require.Zero(t, f.Health().PendingCleanups)
				require.Empty(t, must.Get(near.Children(t.Context(), "/p"))(t))
			})
		})
	}
}

// TestProtectionCreateThatCloseCutsShort promises no deletion: no client is left to make it.
func TestProtectionCreateThatCloseCutsShort(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t)
		n.server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.ApplyNeverAnswer))
		result := make(chan error, 1)
		go func() {
			_, err := f.Create(t.Context(), "/n-", nil, framework.WithProtection(), framework.WithMode(framework.PersistentSequential))
			result <- err
		}()
		synctest.Wait()
		_ = f.Close() // the server does not answer
		err := <-result
		require.ErrorIs(t, err, framework.ErrClosed)
		require.True(t, framework.OutcomeUnknown(err))
		require.NotErrorIs(t, err, framework.ErrCleanupPending)
	})
}

// TestProtectionCreateInDoubtWhereNothingMayBeListed: a node that cannot be searched for is not
// said to be deleted, and the search is not repeated.
func TestProtectionCreateInDoubtWhereNothingMayBeListed(t *testing.T) {
	for _, waits := range []bool{true, false} {
		inMemory(t, func(t *testing.T, n *memnet) {
			f, admin := n.client(t), n.client(t)
			mustCreate(t, admin, "/p", framework.WithACL(zk.WorldACL(zk.PermCreate|zk.PermDelete)...))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			requests := faultAt(n, f.Session().ID(), zkserver.ApplyNeverAnswer, 1)
			result := make(chan error, 1)
			go func() {
				_, err := f.Create(ctx, "/p/n-", nil, framework.WithProtection(), framework.WithMode(framework.EphemeralSequential))
				result <- err
			}()
			synctest.Wait()
			if !waits {
				cancel()
			}
			err := <-result
			require.True(t, framework.OutcomeUnknown(err))
			if waits {
				require.ErrorIs(t, err, framework.ErrNoAuth)
				require.NotErrorIs(t, err, framework.ErrCleanupPending)
			}
			time.Sleep(time.Hour)
			require.Zero(t, f.Health().PendingCleanups)
			require.LessOrEqual(t, requests(), 3, "the create, a sync and a list")
		})
	}
}
