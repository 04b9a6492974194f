// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/testing/zktest"
)

const servicesPath = "/services"

type (
	services = discovery.ServiceDiscovery[string]
	instance = discovery.ServiceInstance[string]
)

func newServices(tb testing.TB, client *framework.Framework) *services {
	tb.Helper()
	d, err := discovery.NewServiceDiscovery[string](client, servicesPath, nil)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, d.Close()) })
	return d
}

// words are an instance as the commands of Java have it.
func words(i instance) []string {
	number := func(n *int) string {
		if n == nil {
			return "-"
		}
		return strconv.Itoa(*n)
	}
	address, payload, template := i.Address, "-", "-"
	if address == "" {
		address = "-"
	}
	if i.Payload != nil {
		payload = *i.Payload
	}
	if i.URI != nil {
		template = ""
		for _, part := range i.URI.Parts {
			if part.Variable {
				template += "{" + part.Value + "}"
			} else {
				template += part.Value
			}
		}
	}
	return []string{
		i.Name, i.ID, address, number(i.Port), number(i.SSLPort), payload,
		strconv.FormatInt(i.Registered.UnixMilli(), 10), //nolint:forbidigo // the wire format, no age
		string(i.Type), template, strconv.FormatBool(!i.Disabled),
	}
}

var serviceTypes = []discovery.ServiceType{discovery.Dynamic, discovery.Static, discovery.Permanent, discovery.DynamicSequential}

// randomInstance returns one that has each field or has not.
func randomInstance(tb testing.TB, r *rand.Rand) instance {
	tb.Helper()
	const letters = `abcXYZ019 -_.:"\'<>&{}[]äß€漢😀` + "\u2028\u007f"
	text := func() string {
		runes := make([]rune, 1+r.IntN(12))
		for i := range runes {
			runes[i] = []rune(letters)[r.IntN(len([]rune(letters)))]
		}
		return "t" + string(runes)
	}
	port := func() *int {
		if r.IntN(3) == 0 {
			return nil
		}
		n := r.IntN(65536)
		return &n
	}
	i := instance{
		Name: text(), ID: text(), Port: port(), SSLPort: port(), Type: serviceTypes[r.IntN(len(serviceTypes))],
		Registered: time.UnixMilli(r.Int64N(1 << 42)), Disabled: r.IntN(2) == 0,
	}
	if r.IntN(3) > 0 {
		i.Address = text()
	}
	if r.IntN(3) > 0 {
		payload := text()
		i.Payload = &payload
	}
	if r.IntN(3) > 0 {
		spec, err := discovery.ParseUriSpec("{scheme}://{address}:{port}/" + strings.NewReplacer("{", "", "}", "").Replace(text()) + "{own}")
		require.NoError(tb, err)
		i.URI = spec
	}
	return i
}

// TestServicesDocuments compares the JSON of random instances field by field,
// both ways, in both of Curator's modes.
func TestServicesDocuments(t *testing.T) {
	needsJava(t)
	java, r := actor{startJava(t).Actor("documents")}, seeds.New(t)
	for n := range 300 {
		compatible := n%2 == 0
		mode, ours := strconv.FormatBool(compatible), discovery.JSONSerializer[string]{Enabled: !compatible}
		i := randomInstance(t, r)
		if compatible {
			i.Disabled = false // it is not written
		}
		written, err := ours.Serialize(i)
		require.NoError(t, err)
		document := java.do(t, "service-write", append([]string{mode}, words(i)...)...)[0]
		require.JSONEq(t, document, string(written), "%+v", i)
		read, err := ours.Deserialize([]byte(document))
		require.NoError(t, err)
		require.Equal(t, i, read)
		require.Equal(t, words(i), java.do(t, "service-read", mode, string(written)), "%s", written)
	}
}

func newService(name, id string, kind discovery.ServiceType) instance {
	i := discovery.NewInstance[string](name, "10.0.0.7", 8080)
	payload := "payload of " + id
	i.ID, i.Type, i.Payload = id, kind, &payload
	return i
}

// TestServicesOfBothSides: each side registers, updates and unregisters
// instances of each type, and the other lists and watches them.
func TestServicesOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		java, ours := newActor(t, server), newServices(t, client)
		for _, kind := range serviceTypes {
			name := "of-" + strings.ToLower(string(kind))
			// No container: Curator fails if the servers delete an empty one while it registers or lists.
			_, err := client.Create(zktest.Context(t), servicesPath+"/"+name, nil, framework.CreatingParentsIfNeeded())
			require.NoError(t, err)
			provider, err := ours.NewProvider(name, discovery.ProviderConfig[string]{})
			require.NoError(t, err)
			require.NoError(t, provider.Start())
			require.NoError(t, provider.Wait(zktest.Context(t)))
			sees := func(port int) {
				t.Helper()
				require.Eventually(t, func() bool {
					i, err := provider.Instance()
					return (err == nil && *i.Port == port) || (err != nil && port == 0)
				}, limit, time.Millisecond, "%s with the port %d", name, port)
			}
			// Curator registers again when it hears of its connection. It replaces its znode, or adds
			// another one if the name is sequential.
			lists := func(i instance) {
				t.Helper()
				require.EventuallyWithT(t, func(c *assert.CollectT) {
					theirs := java.do(t, "service-list", servicesPath, name)
					found, err := ours.Instances(zktest.Context(t), name)
					require.NoError(c, err)
					if i.ID == "java" && kind == discovery.DynamicSequential {
						theirs = theirs[:min(len(words(i)), len(theirs))]
						found = slices.CompactFunc(found, func(a, b instance) bool { return reflect.DeepEqual(a, b) })
					}
					require.Equal(c, words(i), theirs)
					require.Equal(c, []instance{i}, found)
				}, limit, time.Millisecond)
			}
			second := 9090

			i := newService(name, "go", kind)
			require.NoError(t, ours.Register(zktest.Context(t), i))
			java.do(t, "service-await", servicesPath, name, "go", "8080")
			sees(8080)
			lists(i)
			i.Port = &second
			require.NoError(t, ours.Update(zktest.Context(t), i))
			java.do(t, "service-await", servicesPath, name, "go", "9090")
			sees(9090)
			lists(i)
			require.NoError(t, ours.Unregister(i))
			java.do(t, "service-await", servicesPath, name, "go", "-")
			sees(0)

			i = newService(name, "java", kind)
			theirs := newActor(t, server)
			theirs.do(t, "service-register", append([]string{servicesPath}, words(i)...)...)
			sees(8080)
			lists(i)
			if kind == discovery.DynamicSequential { // Curator looks for the node without its number
				theirs.close(t)
			} else {
				i.Port = &second
				theirs.do(t, "service-update", append([]string{servicesPath}, words(i)...)...)
				sees(9090)
				lists(i)
				theirs.do(t, "service-unregister", append([]string{servicesPath}, words(i)...)...)
			}
			sees(0)
			require.Empty(t, java.do(t, "service-list", servicesPath, name))
			require.NoError(t, provider.Close())
		}
	})
}

// TestServicesProvidersOfBothSides: a provider of each side takes the instances of both
// by turns.
func TestServicesProvidersOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const name, rounds = "orders", 5
		java, ours := newActor(t, server), newServices(t, zktest.Client(t, server))
		want := []string{}
		for n := range 2 {
			fromGo, fromJava := newService(name, fmt.Sprint("go", n), discovery.Dynamic), newService(name, fmt.Sprint("java", n), discovery.Dynamic)
			require.NoError(t, ours.Register(zktest.Context(t), fromGo))
			java.do(t, "service-register", append([]string{servicesPath}, words(fromJava)...)...)
			want = append(want, fromGo.ID, fromJava.ID)
		}
		slices.Sort(want)
		byTurns := slices.Sorted(slices.Values(slices.Repeat(want, rounds)))
		require.Equal(t, byTurns, slices.Sorted(slices.Values(java.do(t, "service-provide", servicesPath, name, strconv.Itoa(rounds*len(want))))))
		provider, err := ours.NewProvider(name, discovery.ProviderConfig[string]{})
		require.NoError(t, err)
		require.NoError(t, provider.Start())
		require.NoError(t, provider.Wait(zktest.Context(t)))
		defer func() { require.NoError(t, provider.Close()) }()
		got := []string{}
		for range rounds * len(want) {
			i, err := provider.Instance()
			require.NoError(t, err)
			got = append(got, i.ID)
		}
		slices.Sort(got)
		require.Equal(t, byTurns, got)
	})
}
