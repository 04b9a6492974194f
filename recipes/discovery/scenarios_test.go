// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/testing/zktest"
)

// scenarios are what Curator's own tests do, by the names of those tests.
var scenarios = []struct {
	class, method string
	test          func(t *testing.T, server zktest.Backend)
}{
	{"TestServiceDiscovery", "testCrashedServer", crashedServer},
	{"TestServiceDiscovery", "testCrashedInstance", crashedInstance},
	{"TestServiceDiscovery", "testNoServerOnStart", noServerOnStart},
	{"TestServiceDiscovery", "testUnregisterService", unregisterService},
	{"TestServiceCacheRace", "testRaceOnInitialLoad", raceOnInitialLoad},
	{"TestJsonInstanceSerializerCompatibility", "testCompatibilityMode", compatibilityMode},
	{"TestJsonInstanceSerializerCompatibility", "testBackwardCompatibility", backwardCompatibility},
	{"TestJsonInstanceSerializerCompatibility", "testForwardCompatibility", forwardCompatibility},
	{"TestJsonInstanceSerializerCompatibility", "testFutureChanges", futureChanges},
}

// TestScenarios plays each scenario on the embedded server and on real ZooKeeper.
func TestScenarios(t *testing.T) {
	t.Parallel()
	perClass := map[string]int{}
	for _, s := range scenarios {
		perClass[s.class]++
		t.Run(s.class+"."+s.method, func(t *testing.T) { zktest.EachBackend(t, s.test) })
	}
	require.Equal(t, map[string]int{
		"TestServiceDiscovery": 4, "TestServiceCacheRace": 1, "TestJsonInstanceSerializerCompatibility": 4,
	}, perClass)
}

// crashedServer takes the server away, and ends the session meanwhile.
func crashedServer(t *testing.T, server zktest.Backend) {
	link := zktest.NewProxy(t, server)
	client, witness := zktest.Client(t, server.ConnectStringVia(link.Addr())), zktest.Client(t, server)
	d := newServices(t, client)
	register(t, d, newInstance("a"))
	p := newProvider(t, d, discovery.ProviderConfig[string]{})
	awaitIDs(t, p, "a")
	link.Refuse(true)
	link.Cut()
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	_, err := p.Instance()
	require.NoError(t, err, "the last known one is there")
	zktest.KillSession(t, client, server.Addr())
	link.Refuse(false)
	awaitOwner(t, client, witness)
	awaitIDs(t, p, "a")
}

func crashedInstance(t *testing.T, server zktest.Backend) {
	client, witness := zktest.Client(t, server), zktest.Client(t, server)
	d := newServices(t, client)
	register(t, d, newInstance("a"))
	zktest.KillSession(t, client)
	awaitOwner(t, client, witness)
	found, err := newServices(t, witness).Instances(zktest.Context(t), "orders")
	require.NoError(t, err)
	require.Len(t, found, 1)
}

// noServerOnStart starts a client, a discovery and a provider before there was ever a server.
func noServerOnStart(t *testing.T, server zktest.Backend) {
	link := zktest.NewProxy(t, server)
	link.Refuse(true)
	link.Cut()
	client, err := framework.New(server.ConnectStringVia(link.Addr()))
	require.NoError(t, err)
	require.NoError(t, client.Start())
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	d := newServices(t, client)
	p, err := d.NewProvider("orders", discovery.ProviderConfig[string]{})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	registered, started := make(chan error, 1), make(chan error, 1)
	go func() { registered <- d.Register(zktest.Context(t), newInstance("a")) }()
	require.NoError(t, p.Start())
	go func() { started <- p.Wait(zktest.Context(t)) }()
	require.Eventually(t, func() bool { begun, _ := d.Registered(newInstance("a")); return begun }, limit, time.Millisecond)
	require.Nil(t, client.Session(), "there was never a server")
	require.Empty(t, registered)
	require.Empty(t, started)

	link.Refuse(false)

	require.NoError(t, zktest.Await(t, registered, "the registration"))
	require.NoError(t, zktest.Await(t, started, "the instances of the provider"))
	awaitIDs(t, p, "a")
	found, err := d.Instances(zktest.Context(t), "orders")
	require.NoError(t, err)
	require.Len(t, found, 1)
}

// unregisterService unregisters while the server is away.
func unregisterService(t *testing.T, server zktest.Backend) {
	link := zktest.NewProxy(t, server)
	client, witness := zktest.Client(t, server.ConnectStringVia(link.Addr())), zktest.Client(t, server)
	d := newServices(t, client)
	a := register(t, d, newInstance("a"))
	link.Refuse(true)
	link.Cut()
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	unregistered := make(chan error, 1)
	go func() { unregistered <- d.Unregister(a) }()
	zktest.KillSession(t, client, server.Addr())
	link.Refuse(false)
	require.NoError(t, zktest.Await(t, unregistered, "the end of Unregister"))
	found, err := newServices(t, witness).Instances(zktest.Context(t), "orders")
	require.NoError(t, err)
	require.Empty(t, found)
}

// raceOnInitialLoad registers while caches begin to follow.
func raceOnInitialLoad(t *testing.T, server zktest.Backend) {
	d, other := newServices(t, zktest.Client(t, server)), newServices(t, zktest.Client(t, server))
	want := []string{}
	for i := range 8 {
		id := fmt.Sprintf("instance-%d", i)
		registered := make(chan error, 1)
		go func() { registered <- other.Register(zktest.Context(t), newInstance(id)) }()
		p := newProvider(t, d, discovery.ProviderConfig[string]{})
		require.NoError(t, zktest.Await(t, registered, "the registration"))
		want = append(want, id)
		awaitIDs(t, p, want...)
	}
}

// exchange has the data that Java would write read from a server, and returns
// what is written back.
func exchange(t *testing.T, server zktest.Backend, serializer discovery.JSONSerializer[string], data string) (read instance, written string) {
	t.Helper()
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	_, err := other.Create(zktest.Context(t), "/services/name/id", []byte(data), framework.CreatingParentsIfNeeded())
	require.NoError(t, err)
	d, err := discovery.NewServiceDiscovery[string](client, "/services", serializer)
	require.NoError(t, err)
	read, found, err := d.Instance(zktest.Context(t), "name", "id")
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, other.Delete(zktest.Context(t), "/services/name/id"))
	require.NoError(t, d.Register(zktest.Context(t), read))
	again, err := other.Get(zktest.Context(t), "/services/name/id")
	require.NoError(t, err)
	require.NoError(t, d.Close())
	return read, string(again)
}

const (
	oldDocument = `{"name":"name","id":"id","address":"10.20.30.40","port":10,"sslPort":20,"payload":"payload",` +
		`"registrationTimeUTC":30,"serviceType":"PERMANENT","uriSpec":{"parts":[{"value":"test","variable":false}]}}`
	newDocument = `{"name":"name","id":"id","address":"10.20.30.40","port":10,"sslPort":20,"payload":"payload",` +
		`"registrationTimeUTC":30,"serviceType":"PERMANENT","uriSpec":{"parts":[{"value":"test","variable":false}]},"enabled":false}`
)

// requireBytes compares the text, and with it the order of the fields.
func requireBytes(t *testing.T, want, got string) {
	t.Helper()
	require.Equal(t, want, got)
}

// compatibilityMode writes no field that a Curator before 3.0 cannot read.
func compatibilityMode(t *testing.T, server zktest.Backend) {
	_, written := exchange(t, server, discovery.JSONSerializer[string]{}, newDocument)
	requireBytes(t, oldDocument, written)
}

// backwardCompatibility reads what an older Curator has written.
func backwardCompatibility(t *testing.T, server zktest.Backend) {
	read, written := exchange(t, server, discovery.JSONSerializer[string]{Enabled: true}, oldDocument)
	require.False(t, read.Disabled)
	requireBytes(t, strings.TrimSuffix(oldDocument, "}")+`,"enabled":true}`, written)
}

// forwardCompatibility reads what a newer Curator has written.
func forwardCompatibility(t *testing.T, server zktest.Backend) {
	read, written := exchange(t, server, discovery.JSONSerializer[string]{Enabled: true}, newDocument)
	require.True(t, read.Disabled)
	requireBytes(t, newDocument, written)
}

// futureChanges reads fields that do not exist yet, and writes them back.
func futureChanges(t *testing.T, server zktest.Backend) {
	future := strings.TrimSuffix(newDocument, "}") + `,"aField":"a","aList":[1,{"b":null}]}`
	read, written := exchange(t, server, discovery.JSONSerializer[string]{Enabled: true}, future)
	require.Len(t, read.Unknown, 2)
	requireBytes(t, future, written)
}
