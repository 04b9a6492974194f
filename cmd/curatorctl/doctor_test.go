// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/doctor"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// TestDoctorHealthy: it finds nothing in what locks leave behind, but the faults of old servers.
func TestDoctorHealthy(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/report"))(t)
		holdLock(t, mutex)
		must.Get(client.Create(t.Context(), "/config", make([]byte, 1000)))(t)
		said := curatorctl(t, server.ConnectString(), "", "doctor", "-o", "json")
		require.Empty(t, said.stderr)
		require.Zero(t, said.status, "the version of a distribution is a note: %s", said.stdout)
		var found []doctor.Finding
		require.NoError(t, json.Unmarshal([]byte(said.stdout), &found))
		found = slices.DeleteFunc(found, func(a doctor.Finding) bool { return a.About == "version" })
		require.Empty(t, found)
	})
}

// TestDoctorFindsEachAilment, with the reason and the mend of it.
func TestDoctorFindsEachAilment(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	create := func(path string, data []byte) framework.Op {
		return framework.CreateOp(path, data)
	}
	ops := []framework.Op{
		create("/large", make([]byte, 600_000)), create("/log", nil), create("/left", nil), create("/long", nil),
		create("/zookeeper/quota/full", nil), create("/zookeeper/quota/full/zookeeper_limits", []byte("count=10,bytes=-1=;byteHardLimit=-1;countHardLimit=1000")),
		create("/zookeeper/quota/full/zookeeper_stats", []byte("count=9,bytes=300")),
	}
	must.Get(client.Transact(t.Context(), ops...))(t)
	ops = nil
	for i := range 300 {
		ops = append(ops, create(fmt.Sprint("/left/", i), nil))
	}
	must.Get(client.Bulk(t.Context(), ops))(t)
	for i := range 300 {
		path := fmt.Sprint("/left/", i, "/a")
		must.Get(client.Transact(t.Context(), create(path, nil), framework.DeleteOp(path)))(t)
	}
	ops = nil
	for i := range 1000 {
		ops = append(ops, create(fmt.Sprintf("/log/%010d", i), nil))
	}
	for i := range 2100 {
		ops = append(ops, create("/long/"+strings.Repeat("x", 250)+fmt.Sprint(i), nil))
	}
	must.Get(client.Bulk(t.Context(), ops))(t)
	words := strings.NewReplacer(
		"Outstanding: 0", "Outstanding: 700", "Mode: standalone", "Mode: leader", "zk_watch_count\t", "zk_watch_count\t1000000",
		"zk_uptime", "zk_open_file_descriptor_count\t90\nzk_max_file_descriptor_count\t100\nzk_max_client_response_size\t600000\nzk_uptime",
		"maxClientCnxns=0", "maxClientCnxns=2", "tickTime=", "syncLimit=5\ntickTime=5000\nwas=", time.Now().UTC().Format(" 2006\n"), " 2020\n",
		time.Now().UTC().Format(" 2006:\n"), " 2020:\n", "Sessions with Ephemerals", "0x77:\n\t/of/nobody\nSessions with Ephemerals",
	)
	said := curatorctlWith(t, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &illServer{Conn: conn, words: words}, err
	}, server.Addr(), "doctor")
	require.Equal(t, exitFound, said.status, said.stderr)
	text := said.stdout
	for _, want := range []string{
		`version: .*: ZooKeeper 3\.8\..*CVE-2024-23944\)\n    Upgrade to 3\.8\.4 or later, unless your distribution has patched it\.`,
		`load: .*: 700 requests are outstanding`,
		`load: .*: it has 1\d+ watches`,
		`load: .*: it has 90 of 100 file descriptors\n    Raise the limit`,
		`load: .*: it has sent a reply of 600000 bytes`,
		`connections: .*: 127\.0\.0\.1 has \d of 2 connections \(maxClientCnxns\)\n    Raise maxClientCnxns`,
		`timeout: .*: \d sessions have timeouts below 45s, the shortest [123]\ds: with StandardErrorPolicy`,
		`clock: .*: the clock of the leader differs from this machine's by about -\d+h`,
		`session: 0x77: it has no client, and owns 1 ephemeral znodes such as /of/nobody until it expires at`,
		`size: /large: it has 600000 bytes`,
		`children: /long: its list of 2100 children is \d+ bytes long`,
		`empty: /left: 300 folders in it had children`,
		`quota: /full: 9 of 10 are used \(count\)`,
	} {
		require.Regexp(t, want, text)
	}
	require.Len(t, slices.Collect(strings.Lines(text)), 2*(13+2), "and no more, but other faults of the version: %s", text)
}

// TestDoctorOfWhatItMayNotList: it does not call that well.
func TestDoctorOfWhatItMayNotList(t *testing.T) {
	server := zktest.NewServer(t)
	must.Get(zktest.Client(t, server).Create(t.Context(), "/secret", nil, framework.WithACL(framework.DigestACL(framework.PermAll, "ann", "secret")...)))(t)
	said := curatorctl(t, server.Addr(), "", "doctor", "-except", "version")
	require.Equal(t, exitUnknown, said.status, said.stderr)
	require.Equal(t, "unknown: /secret: what is in it is not known: it may not be listed\n    Ask as a user that may read it.\n", said.stdout)
}

// TestDoctorCountsWhatItLeavesOut: it shows ten findings of a kind, and says how many more there are, as text and as JSON.
func TestDoctorCountsWhatItLeavesOut(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	for i := range 12 {
		must.Get(client.Create(t.Context(), fmt.Sprint("/large-", i), make([]byte, 600_000)))(t)
	}
	require.Contains(t, curatorctl(t, server.Addr(), "", "doctor").stdout, "\nsize: 2 more\n")
	var found []doctor.Finding
	require.NoError(t, json.Unmarshal([]byte(curatorctl(t, server.Addr(), "", "doctor", "-o", "json").stdout), &found))
	var more []int
	for _, a := range found {
		if a.About == "size" {
			more = append(more, a.More)
		}
	}
	require.Equal(t, []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, more)
}

// illServer changes what a server answers to words.
type illServer struct {
	net.Conn

	words  *strings.Replacer
	isWord atomic.Bool
	answer io.Reader
}

func (c *illServer) Write(p []byte) (int, error) {
	if len(p) == 4 {
		c.isWord.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *illServer) Read(p []byte) (int, error) {
	if !c.isWord.Load() {
		return c.Conn.Read(p)
	}
	if c.answer == nil {
		text, err := io.ReadAll(c.Conn)
		if err != nil {
			return 0, err
		}
		c.answer = strings.NewReader(c.words.Replace(string(text)))
	}
	return c.answer.Read(p)
}
