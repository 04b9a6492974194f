// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestRestartedMemberStaysMember: a program that is killed and started again in its session is never missing in its group.
func TestRestartedMemberStaysMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		file := framework.WithSessionFile(filepath.Join(t.TempDir(), "session"))
		observer := zktest.Client(t, server)
		join := func() *framework.Framework {
			client := zktest.Client(t, server, file)
			member, err := nodes.NewGroupMember(client, "/group", "a", []byte("a"))
			require.NoError(t, err)
			require.NoError(t, member.Start())
			t.Cleanup(func() { _ = member.Close() }) // the first has no connection any more
			require.NoError(t, member.WaitUntilJoined(zktest.Context(t)))
			return client
		}
		client := join()
		stat, err := observer.Exists(zktest.Context(t), "/group/a")
		require.NoError(t, err)
		zktest.KillProcess(t, server, client)
		join()
		time.Sleep(time.Minute) // what was not adopted is deleted
		now, err := observer.Exists(zktest.Context(t), "/group/a")
		require.NoError(t, err)
		require.Equal(t, stat.Czxid, now.Czxid)
	})
}
