// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/partition"
	"github.com/gocurator/curator/testing/zktest"
)

const (
	asMember    = "CURATOR_TEST_MEMBER_OF" // makes this test binary a member, on these servers
	killTimeout = 6 * time.Second          // of the sessions of such members
)

// runAsMember runs a member until the process is killed. It writes a line for each partition.
func runAsMember(servers string) {
	ctx := context.Background()
	client, err := framework.Connect(ctx, servers, framework.WithSessionTimeout(killTimeout), framework.WithErrorPolicy(framework.SessionErrorPolicy))
	check(err)
	member, err := partition.New(client, root, partition.Fixed(numbered(20)...))
	check(err)
	check(member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
		fmt.Println("has", p.Name)
		<-ctx.Done()
		fmt.Println("ends", p.Name)
		return context.Cause(ctx)
	}))
}

// report is a line of a member.
type report struct {
	member     int
	what, name string
	at         time.Time
}

// TestKillOneOfFive kills one of five processes on three servers. Each of its partitions gets another
// holder, and no other one moves. How soon, only the log says: [TestMemberDies] has a bound, on fake time.
func TestKillOneOfFive(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs three ZooKeeper servers, and waits for a session to expire")
	}
	const members = 5
	servers := zktest.NewEnsemble(t, 3).ConnectString()
	reports := make(chan report, 1000)
	var processes []*exec.Cmd
	for i := range members {
		processes = append(processes, startMember(t, i, servers, reports))
	}
	owner := make(map[string]int)
	follow := func(r report) {
		switch {
		case r.what == "has":
			owner[r.name] = r.member
		case owner[r.name] == r.member:
			delete(owner, r.name)
		}
	}
	counts := func() (n [members]int) {
		for _, m := range owner {
			n[m]++
		}
		return n
	}
	for counts() != [members]int{4, 4, 4, 4, 4} {
		follow(zktest.Await(t, reports, "balance"))
	}

	killed := time.Now()
	require.NoError(t, processes[2].Process.Kill())
	for name, m := range owner {
		if m == 2 {
			delete(owner, name)
		}
	}
	var first, last time.Duration
	for len(owner) < 20 {
		r := zktest.Await(t, reports, "the partitions of the member that was killed")
		if now, held := owner[r.name]; r.what == "ends" && (!held || now != r.member) {
			continue // the line of an earlier holder, which came later than its successor's
		}
		require.Equal(t, "has", r.what, "the partitions of the others stay: %+v", r)
		follow(r)
		last = r.at.Sub(killed)
		if first == 0 {
			first = last
		}
	}
	t.Logf("session timeout %v: the first partition without a holder for %v, the last for %v", killTimeout, first.Round(time.Millisecond), last.Round(time.Millisecond))
	require.Equal(t, [members]int{5, 5, 0, 5, 5}, counts())
}

func startMember(t *testing.T, member int, servers string, reports chan<- report) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), asMember+"="+servers)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			r := report{member: member, at: time.Now()}
			if _, err := fmt.Sscan(lines.Text(), &r.what, &r.name); err == nil {
				reports <- r
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // killed
	})
	return cmd
}
