// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
)

// TestJanitorRefusedCleanupsKeepNobodyWaiting, however many there are. Each is in the log once,
// and is made when there is the right again.
func TestJanitorRefusedCleanupsKeepNobodyWaiting(t *testing.T) {
	const refused = 100
	inMemory(t, func(t *testing.T, n *memnet) {
		log := new(strings.Builder) // one handler writes at a time
		f, admin := n.client(t, framework.WithLogger(slog.New(slog.NewTextHandler(log, nil)))), n.client(t)
		mustCreate(t, f, "/free")
		for i := range refused {
			mustCreate(t, f, fmt.Sprintf("/closed/%d", i), framework.CreatingParentsIfNeeded())
		}
		require.NoError(t, admin.SetACL(t.Context(), "/closed", zk.WorldACL(zk.PermRead|zk.PermAdmin)))
		for i := range refused {
			require.NoError(t, f.Delete(t.Context(), fmt.Sprintf("/closed/%d", i), framework.InBackground()))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, refused, strings.Count(log.String(), "cleanup refused"))

		// They do not keep the server busy either: each is repeated every half minute.
		requests := countRequests(n.server)
		time.Sleep(time.Hour)
		synctest.Wait()
		perCleanup := float64(requests()) / refused
		require.Greater(t, perCleanup, 100.0)
		require.Less(t, perCleanup, 140.0)

		require.NoError(t, f.Delete(t.Context(), "/free", framework.InBackground()))
		synctest.Wait() // in which no time passes
		requireNone(t, admin, "/free")

		require.NoError(t, admin.SetACL(t.Context(), "/closed", zk.WorldACL(zk.PermAll)))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, must.Get(admin.Children(t.Context(), "/closed"))(t))
		require.Equal(t, refused, strings.Count(log.String(), "level=ERROR"))
	})
}
