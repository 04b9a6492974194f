// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// The history changes while news are taken, and a caller of Fresh in the new history is among them: what is compared from
// then on must be read. Only a test from within can stop the engine in between.
func TestDrainReadsTheHistoryAfterTheNews(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	c := must.Get(NewCuratorCache(client, "/tree"))(t)
	e := newEngine(c)
	e.beginSweep()
	e.oneShot = true // a persistent watch would tell of the new connection
	before := client.History()
	c.inbox.mu.Lock()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		e.drain()
	}()
	stacks := make([]byte, 1<<20)
	for !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "(*inbox).take(") {
		runtime.Gosched()
	}
	session := client.Session()
	zktest.KillSession(t, client)
	zktest.Await(t, session.Done(), "the end of the session")
	require.NoError(t, client.BlockUntilConnected(zktest.Context(t))) // only with a new session is the history the last one
	require.Greater(t, client.History(), before)
	c.inbox.messages = append(c.inbox.messages, message{reached: make(chan struct{})})
	c.inbox.mu.Unlock()
	<-drained

	require.Equal(t, client.History(), e.next, "a sweep compares by the new history")
}
