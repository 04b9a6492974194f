// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// answers replace what a server says to four-letter words.
type answers map[string]io.Reader

func (a answers) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &wordConn{Conn: conn, answers: a}, err
}

type wordConn struct {
	net.Conn

	answers answers
	answer  io.Reader
}

func (c *wordConn) Write(p []byte) (int, error) {
	if answer, found := c.answers[string(p)]; found {
		c.answer = answer
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *wordConn) Read(p []byte) (int, error) {
	if c.answer != nil {
		return c.answer.Read(p)
	}
	return c.Conn.Read(p)
}

// broken is an answer whose connection ends within it.
func broken(text string) io.Reader {
	return io.MultiReader(strings.NewReader(text), failing{})
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

// curatorctlWith is curatorctl with a dialer.
func curatorctlWith(t *testing.T, dial framework.Dialer, servers string, args ...string) outcome {
	t.Helper()
	return program{options: []framework.Option{framework.WithDialer(dial)}}.in(t, map[string]string{"CURATOR_SERVERS": servers}, args...)
}

// TestEnsembleOwnerMayBeConnectedElsewhere: only all servers together know that a session has no connection.
func TestEnsembleOwnerMayBeConnectedElsewhere(t *testing.T) {
	server := zktest.NewServer(t)
	mutex := must.Get(locks.NewInterProcessMutex(zktest.Client(t, server), "/locks/report"))(t)
	holdLock(t, mutex)
	quorum := "serverId=1\nquorumPort=2888\nmembership: \nserver.1=a:2888:3888:participant\n"
	elsewhere := ": no connection at the servers asked (" + server.Addr() + "; "
	unlisted := ": no server has listed its connections, expires at "
	for _, test := range []struct {
		name, cons, conf, said, note string
		broken                       bool
	}{
		{name: "all servers are asked", cons: "\n", conf: quorum, said: " has no connection, expires at "},
		{name: "a server is not asked", cons: "\n", conf: quorum + "server.2=b:2888:3888:participant\n", said: elsewhere},
		{name: "an old server does not list the ensemble", cons: "\n", conf: "serverId=1\nquorumPort=2888\n", said: elsewhere},
		{name: "conf is not to be had", cons: "\n", conf: "conf is not executed because it is not in the whitelist.\n", said: elsewhere},
		{name: "the answer has no end", cons: " /127.0.0.1:1[1](queued=0,rec", conf: quorum, said: unlisted, note: "cons: the answer is truncated"},
		{name: "the connection breaks", cons: " /127.0.0.1:1[1](queued=0)\n", broken: true, conf: quorum, said: unlisted, note: "cons: connection reset"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cons := io.Reader(strings.NewReader(test.cons))
			if test.broken {
				cons = broken(test.cons)
			}
			dial := answers{"cons": cons, "conf": strings.NewReader(test.conf)}.dial
			got := curatorctlWith(t, dial, server.Addr(), "lock", "show", "/locks/report")
			want := exitUnknown
			if test.said == " has no connection, expires at " { // it is known
				want = exitDone
			}
			require.Equal(t, want, got.status, got.stderr)
			require.Contains(t, got.stdout, test.said)
			require.Contains(t, got.stderr, test.note)
		})
	}
}

// TestEnsembleNextOfASemaphore is in another folder than the permit that is broken.
func TestEnsembleNextOfASemaphore(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	var giveUp []func() error // of the second, and of the third
	for _, label := range []string{"first", "second", "third"} {
		semaphore := must.Get(locks.NewInterProcessSemaphoreV2(client, "/locks/sem", locks.FixedLeases(1), locks.WithLabel(label)))(t)
		if label == "first" {
			holdLock(t, semaphore)
			continue
		}
		ctx, stop := context.WithCancel(zktest.Context(t))
		done := make(chan error, 1)
		go func() {
			_, err := semaphore.Acquire(ctx)
			done <- err
		}()
		giveUp = append(giveUp, func() error {
			stop()
			return zktest.Await(t, done, "the end of a wait")
		})
		folder := map[string]string{"second": "/locks/sem/leases", "third": "/locks/sem/locks"}[label]
		for f, err := range client.FollowChildren(zktest.Context(t), folder) {
			require.NoError(t, err)
			if len(f.Names) == 2 {
				break
			}
		}
	}
	recipes := must.Get(inspect.At(t.Context(), client, "/locks/sem"))(t)
	require.Len(t, recipes, 1)
	var next []string
	for _, p := range recipes[0].Participants {
		got := curatorctl(t, server.Addr(), "", "lock", "break", "-token", strconv.FormatInt(p.Token, 10), p.Path)
		require.Equal(t, exitUsage, got.status, got.stderr)
		line := strings.Split(got.stderr, "\n")[1]
		next = append(next, line[:strings.IndexAny(line, "(;")])
	}
	// The permits of the first and the second, then the turns of the second and the third.
	require.Equal(t, []string{"second ", "no contender waits for it", "third ", "no contender waits for it"}, next)
	for _, end := range slices.Backward(giveUp) { // or the third could get the turn of the second as its context ends
		require.ErrorIs(t, end(), locks.ErrNotAcquired)
	}
}
