package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// haunted is a plan in which client a waits for mutex-s from 100 to 3000 in vain, and server s1 has a
// node in its folder that the others have not.
func haunted() *plan {
	p := goodPlan()
	const phantom = "/nemesis/locks/mutex-s/_c_0-lock-0000000007"
	p.round().Left = leftovers{Phantoms: []string{phantom}, Haunted: map[string][]string{"s1": {phantom}}}
	p.round().Stuck = []string{"a mutex-s"}
	p.add("a", event{At: at(100), Kind: called, Hold: "a/mutex-s.0/9", Lock: "mutex-s"})
	p.add("a", event{At: at(3000), Kind: failed, Hold: "a/mutex-s.0/9", Lock: "mutex-s", Error: "not acquired"})
	return p
}

// dial has a client connect at a time, and hang up at another one.
func (p *plan) dial(client, server string, from, to int64) {
	conn := client + server
	p.add(client, event{At: at(from), Kind: dialed, Server: server, Conn: conn}, event{At: at(to), Kind: hungUp, Conn: conn})
}

// Only those wait for a phantom who are connected to the server that has it.
func TestWhoWaitsForAPhantom(t *testing.T) {
	t.Parallel()
	const never = "a mutex-s could not be acquired after the last fault"
	p := haunted()
	p.dial("a", "s1", 2, 5000)
	kept(t, stuck, p)
	p.round().Left.Haunted = map[string][]string{"s2": p.round().Left.Phantoms}
	require.Contains(t, broken(t, stuck, nobodyStuck, p), never)
	p = haunted()
	p.dial("a", "s1", 2, 5000)
	p.round().Left.Phantoms[0] = "/nemesis/locks/another/_c_0-lock-0000000007"
	require.Contains(t, broken(t, stuck, nobodyStuck, p), never)

	for until, excused := range map[int64]bool{99: false, 101: true} {
		p = haunted()
		p.dial("a", "s1", 2, until)
		p.dial("a", "s2", until, 5000)
		require.Equal(t, excused, len(stuck(p.load(t))) == 0, "to %d", until)
	}

	p = haunted()
	p.add("a", event{At: at(3001), Kind: called, Hold: "a/mutex-s.1/1", Lock: "mutex-s"})
	p.add("a", event{At: at(4000), Kind: failed, Hold: "a/mutex-s.1/1", Lock: "mutex-s"})
	p.dial("a", "s1", 2, 3000)
	p.dial("a", "s2", 3000, 5000)
	broken(t, stuck, nobodyStuck, p) // another worker was in vain, too
}

// Who is behind such a client in the queue does not get the lock either.
func TestWhoIsBehindAPhantom(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		server  string
		gone    int64
		excused bool
	}{
		"the client ahead is not connected to the server": {"s2", 2999, false},
		"it gives up with this one":                       {"s1", 2001, true},
		"it has given up before":                          {"s1", 2000, false},
	} {
		p := haunted()
		p.dial("a", "s2", 2, 5000)
		p.dial("b", test.server, 2, 5000)
		p.commit(txnCreate2, 'b', 20, 95, node("mutex-s", "lock-", 8))
		p.commit(txnCreate2, 'a', 21, 101, node("mutex-s", "lock-", 9))
		p.commit(txnDelete, 'b', 22, test.gone, node("mutex-s", "lock-", 8))
		p.commit(txnDelete, 'a', 23, 3000, node("mutex-s", "lock-", 9))
		require.Equal(t, test.excused, len(stuck(p.load(t))) == 0, name)
	}
}

// An older record does not tell where clients were, which is said.
func TestPhantomsOfAnOlderRecord(t *testing.T) {
	t.Parallel()
	const untold = "the record of round round1 does not tell which client was connected to which server"
	p := haunted()
	p.round().Left.Haunted = nil
	kept(t, stuck, p)
	require.Contains(t, faultsOfServers(p.load(t))[1], untold)
	p.dial("a", "s1", 2, 5000)
	p.dial("b", "s1", 2, 5000)
	require.Len(t, faultsOfServers(p.load(t)), 1)
	p.round().Left.Phantoms = nil
	require.Empty(t, faultsOfServers(p.load(t)))
}

func TestEphemerals(t *testing.T) {
	t.Parallel()
	dump := "SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at Fri Nov 20 12:00:00 UTC 2026:\n\t0x1000\n" +
		"ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x1000:\n\t/a/b\n\t/c\nConnections dump:\n"
	require.Equal(t, []string{"/a/b", "/c"}, ephemerals(dump))
}

// Records name a server by its host, whichever way a client reaches it.
func TestHostBehind(t *testing.T) {
	t.Parallel()
	w, err := newWay(clientConfig{Servers: []string{"192.0.2.1:2181", "192.0.2.2:2181"}, Proxied: true}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, w.close()) }()
	require.Equal(t, "192.0.2.2", w.hostBehind(w.proxies[1].Addr()))
	require.Equal(t, "192.0.2.1", w.hostBehind("192.0.2.1:2182"))
}
