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
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// No goroutine may be left when the tests are over.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inMemory runs a test with a server that is reached in memory, in a bubble of
// testing/synctest: its clock jumps to the next timer when all goroutines wait, so that a
// session of 30 seconds expires in no time. At its end no session, ephemeral znode or watch
// may be left at the server.
func inMemory(t *testing.T, test func(t *testing.T, server *zkserver.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		test(t, server)
	})
}

// output has the lines that the replicas have written.
type output chan string

func (o output) Write(line []byte) (int, error) {
	o <- strings.TrimSuffix(string(line), "\n")
	return len(line), nil
}

// during returns what the replicas write in a time of the bubble's clock, without the
// times of the strikes and without repetitions.
func (o output) during(d time.Duration) (lines []string) {
	time.Sleep(d)
	synctest.Wait()
	for len(o) > 0 {
		line, _, _ := strings.Cut(<-o, " 0")
		if len(lines) == 0 || lines[len(lines)-1] != line {
			lines = append(lines, line)
		}
	}
	return lines
}

// start starts a replica with a client of its own, whose session has a timeout of 30
// seconds. It returns the client and how to stop the replica.
func start(t *testing.T, server *zkserver.Server, out output, name string) (*framework.Framework, func()) {
	t.Helper()
	client := zktest.Client(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- keepTime(ctx, client, out, name) }()
	synctest.Wait() // it has the lock, or waits for it
	return client, func() {
		cancel()
		require.NoError(t, zktest.Await(t, ended, "the end of "+name))
	}
}

func TestReplicaStrikesAlone(t *testing.T) {
	inMemory(t, func(t *testing.T, server *zkserver.Server) {
		out := make(output, 100)
		_, stopA := start(t, server, out, "a")
		_, stopB := start(t, server, out, "b")
		require.Equal(t, []string{"a strikes"}, out.during(time.Minute))
		stopA()
		require.Equal(t, []string{"b strikes"}, out.during(2*time.Second), "a release hands over at once")
		stopB()
		require.Empty(t, out.during(time.Minute))
	})
}

// TestReplicaThatIsCutOffStops: it stops before the other can begin, although no message
// reaches it.
func TestReplicaThatIsCutOffStops(t *testing.T) {
	inMemory(t, func(t *testing.T, server *zkserver.Server) {
		out := make(output, 100)
		client, stopA := start(t, server, out, "a")
		_, stopB := start(t, server, out, "b")
		require.Equal(t, []string{"a strikes"}, out.during(5*time.Second))

		heal := server.Blackhole(client.Session().ID(), zkserver.Both)
		require.Equal(t, []string{"a strikes", "a has lost the lock: suspended", "b strikes"}, out.during(45*time.Second))

		heal()
		require.Equal(t, []string{"b strikes"}, out.during(time.Minute), "a waits behind b")
		stopB()
		require.Equal(t, []string{"a strikes"}, out.during(2*time.Second))
		stopA()
	})
}

// TestReplicaWhoseServerFallsBehind: b learns late that a has stopped, since its server does.
func TestReplicaWhoseServerFallsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := zktest.NewEmbeddedEnsemble(t, 3, zkserver.WithoutListener())
		behind := servers.Followers()[0]
		out := make(output, 100)
		_, stopA := start(t, servers.Leader(), out, "a")
		_, stopB := start(t, behind, out, "b")
		catchUp := servers.Lag(behind, 10*time.Second, 0)
		require.Equal(t, []string{"a strikes"}, out.during(5*time.Second))
		stopA()
		require.Empty(t, out.during(9*time.Second), "no server has told b")
		require.Equal(t, []string{"b strikes"}, out.during(5*time.Second))
		catchUp()
		stopB()
	})
}

// TestReplicaWhoseConnectionBreaks: the session survives, and the other replica may enter only
// because the first one has let go of the lock.
func TestReplicaWhoseConnectionBreaks(t *testing.T) {
	inMemory(t, func(t *testing.T, server *zkserver.Server) {
		out := make(output, 100)
		client, stopA := start(t, server, out, "a")
		_, stopB := start(t, server, out, "b")
		session := client.Session().ID()
		require.Equal(t, 1, server.Cut(session, 1))
		require.Equal(t, []string{"a has lost the lock: suspended", "b strikes"}, out.during(5*time.Second))
		require.Equal(t, session, client.Session().ID())
		stopB()
		stopA()
	})
}

func TestReplicaWhoseSessionExpires(t *testing.T) {
	inMemory(t, func(t *testing.T, server *zkserver.Server) {
		out := make(output, 100)
		client, stopA := start(t, server, out, "a")
		zktest.KillSession(t, client)
		lines := out.during(20 * time.Second)
		require.Len(t, lines, 2)
		require.Contains(t, lines[0], "a has lost the lock: ")
		require.Equal(t, "a strikes", lines[1], "again, in its next session")
		stopA()
	})
}

// TestReplicaWhoseFirstCreateIsNotAnswered: the client cannot know whether its znode was created.
// It finds out, or it would stand behind a znode of its own.
func TestReplicaWhoseFirstCreateIsNotAnswered(t *testing.T) {
	inMemory(t, func(t *testing.T, server *zkserver.Server) {
		server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.LoseReply))
		out := make(output, 100)
		_, stop := start(t, server, out, "a")
		require.Equal(t, []string{"a strikes"}, out.during(20*time.Second))
		zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Fault == zkserver.LoseReply })
		stop()
	})
}

// TestReplicaProgram has sockets and the real clock: the program connects by itself.
func TestReplicaProgram(t *testing.T) {
	server := zktest.NewServer(t)
	ctx, stop := context.WithCancel(t.Context())
	out, ended := make(output, 100), make(chan error, 1)
	go func() { ended <- run(ctx, out, server.Addr(), "a") }()
	require.Contains(t, zktest.Await(t, out, "a strike"), "a strikes ")
	stop()
	require.NoError(t, zktest.Await(t, ended, "the end"))
	require.ErrorContains(t, run(t.Context(), out, "127.0.0.1:0", "a"), "127.0.0.1:0")
}
