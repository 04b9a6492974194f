// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"testing"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
)

// KillProcess does to a client of an embedded server what the end of its process does, by kill -9 for instance: the
// connection ends, and the server hears no word. The client is closed, so that it leaves no goroutine. Its session, and what
// the session holds, stay until the session times out, which takes no time on a fake clock.
//
// A guard (see [framework.WithGuard]) ends the session at once. So does [framework.EndSession] here, with the id and the password of
// the session, and [framework.WithDialer] for a server [zkserver.WithoutListener].
func KillProcess(tb testing.TB, server *zkserver.Server, client *framework.Framework) {
	tb.Helper()
	id := client.Session().ID()
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID == id {
			return zkserver.LoseRequest
		}
		return zkserver.Pass
	})
	defer remove()
	if client.Close() == nil {
		tb.Fatalf("zktest: the client has ended its session %#x", id)
	}
}
