// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/discovery"
)

// metadata is the payload of Spring Cloud Zookeeper.
type metadata struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Metadata map[string]string `json:"metadata"`
}

const springClass = "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance"

const springInstance = `{"name":"orders","id":"a7","address":"10.0.0.7","port":8080,"sslPort":null,` +
	`"payload":{"@class":"` + springClass + `","id":"application-1","name":"orders","metadata":{"instance_status":"UP"}},` +
	`"registrationTimeUTC":1464000000000,"serviceType":"DYNAMIC",` +
	`"uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},` +
	`{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true}]}}`

func roundTrip[T any](t *testing.T, s discovery.JSONSerializer[T], document string) discovery.ServiceInstance[T] {
	t.Helper()
	instance := must.Get(s.Deserialize([]byte(document)))(t)
	require.Equal(t, document, string(must.Get(s.Serialize(instance))(t)))
	return instance
}

// The documents are what the JsonInstanceSerializer of Curator 5.4 writes.
func TestInstanceDocumentsOfJava(t *testing.T) {
	const head, tail = `{"name":"n","id":"i","address":null,"port":null,"sslPort":null,"payload":`,
		`,"registrationTimeUTC":1,"serviceType":"DYNAMIC","uriSpec":null}`

	nothing := roundTrip(t, discovery.JSONSerializer[any]{}, head+"null"+tail)
	require.Nil(t, nothing.Payload)
	require.Nil(t, nothing.Port)
	require.False(t, nothing.Disabled)
	require.Equal(t, "text \"x\" </a>&\u0001\b\u00e9",
		*roundTrip(t, discovery.JSONSerializer[string]{}, head+`"text \"x\" </a>&\u0001\bé"`+tail).Payload)
	require.Equal(t, 5, *roundTrip(t, discovery.JSONSerializer[int]{}, head+"5"+tail).Payload)
	require.True(t, *roundTrip(t, discovery.JSONSerializer[bool]{}, head+"true"+tail).Payload)
	require.InDelta(t, 5.5, *roundTrip(t, discovery.JSONSerializer[float64]{}, head+"5.5"+tail).Payload, 0)
	require.Equal(t, int64(5), *roundTrip(t, discovery.JSONSerializer[int64]{Class: "java.lang.Long"},
		head+`["java.lang.Long",5]`+tail).Payload)
	require.Equal(t, []any{"a", 1.0}, *roundTrip(t, discovery.JSONSerializer[[]any]{Class: "java.util.ArrayList"},
		head+`["java.util.ArrayList",["a",1]]`+tail).Payload)
	require.Equal(t, map[string]any{"a": 1.0}, *roundTrip(t, discovery.JSONSerializer[map[string]any]{Class: "java.util.LinkedHashMap"},
		head+`{"@class":"java.util.LinkedHashMap","a":1}`+tail).Payload)

	disabled := roundTrip(t, discovery.JSONSerializer[any]{Enabled: true},
		`{"name":"n","id":"i","address":"1.2.3.4","port":80,"sslPort":443,"payload":null,"registrationTimeUTC":1234567890123,`+
			`"serviceType":"PERMANENT","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},`+
			`{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true},`+
			`{"value":"/x","variable":false},{"value":"foo","variable":true}]},"enabled":false}`)
	require.True(t, disabled.Disabled)
	require.Equal(t, discovery.Permanent, disabled.Type)
	require.Equal(t, time.UnixMilli(1234567890123), disabled.Registered)
	require.Equal(t, "https://1.2.3.4:80/x/y", disabled.BuildURI(map[string]string{"foo": "/y"}))
	older := must.Get(discovery.JSONSerializer[any]{}.Serialize(disabled))(t)
	require.NotContains(t, string(older), "enabled", "a field that no Curator before 3.0 can read")
	require.False(t, must.Get(discovery.JSONSerializer[any]{Enabled: true}.Deserialize(older))(t).Disabled)
	require.Equal(t, disabled.URI, must.Get(discovery.ParseUriSpec("{scheme}://{ address }:{port}/x{foo}"))(t))
}

func TestInstanceDocumentOfSpring(t *testing.T) {
	s := discovery.JSONSerializer[metadata]{Class: springClass}
	instance := roundTrip(t, s, springInstance)
	require.Equal(t, metadata{"application-1", "orders", map[string]string{"instance_status": "UP"}}, *instance.Payload)
	require.Equal(t, "http://10.0.0.7:8080", instance.BuildURI(nil))
}

func TestInstanceFieldsThatAreNotKnownAreWrittenBack(t *testing.T) {
	const document = `{"name":"n","id":"i","address":null,"port":80,"sslPort":null,"payload":null,` +
		`"registrationTimeUTC":1,"serviceType":"STATIC","uriSpec":null,"colour":{"of":[1,2]},"zone":"eu"}`
	instance := roundTrip(t, discovery.JSONSerializer[any]{}, document)
	require.Equal(t, map[string]json.RawMessage{"colour": json.RawMessage(`{"of":[1,2]}`), "zone": json.RawMessage(`"eu"`)}, instance.Unknown)
}

// A list of two is told from Jackson's array of a class and a value.
func TestInstancePayloadOfTwoTexts(t *testing.T) {
	document := func(payload string) string {
		return `{"name":"n","id":"i","address":null,"port":null,"sslPort":null,"payload":` + payload +
			`,"registrationTimeUTC":1,"serviceType":"STATIC","uriSpec":null}`
	}
	const hosts = `["a.example.com","b.example.com"]`
	require.Equal(t, []string{"a.example.com", "b.example.com"}, *roundTrip(t, discovery.JSONSerializer[[]string]{}, document(hosts)).Payload)
	const addresses = `["10.0.0.1","10.0.0.2"]`
	require.Equal(t, []any{"10.0.0.1", "10.0.0.2"}, *roundTrip(t, discovery.JSONSerializer[any]{}, document(addresses)).Payload)
}

func TestInstanceFieldThatIsNotKnownIsJSON(t *testing.T) {
	for _, value := range []string{"", "eu", "1,"} {
		instance := discovery.ServiceInstance[any]{Name: "n", ID: "i", Unknown: map[string]json.RawMessage{"zone": json.RawMessage(value)}}
		_, err := discovery.JSONSerializer[any]{}.Serialize(instance)
		require.ErrorContains(t, err, `unknown field "zone" of i`)
	}
}

func TestInstanceMissingFieldsHaveTheDefaultsOfJava(t *testing.T) {
	instance := must.Get(discovery.JSONSerializer[any]{}.Deserialize([]byte(`{"name":"n","id":"i"}`)))(t)
	require.Equal(t, discovery.Dynamic, instance.Type)
	require.False(t, instance.Disabled)
}

func TestInstanceWhatIsNoInstance(t *testing.T) {
	for _, data := range []string{"", "10.0.0.1", "[]", "{}", `{"name":"n"}`, `{"name":"n","id":"i","port":"many"}`, `{"name":"n","id":"i","payload":"x"}`} {
		_, err := discovery.JSONSerializer[int]{}.Deserialize([]byte(data))
		require.ErrorContains(t, err, "discovery: ", "%q", data)
	}
	for _, template := range []string{"{a", "a}", "{a{b}}", "{a}}"} {
		_, err := discovery.ParseUriSpec(template)
		require.ErrorContains(t, err, "discovery: ", "%q", template)
	}
}

// TestInstanceIsReadAsJavaReadsIt: what Jackson 2.14 makes of these values for the fields of Curator's ServiceInstance.
func TestInstanceIsReadAsJavaReadsIt(t *testing.T) {
	number := func(n int) *int { return &n }
	whole := discovery.ServiceInstance[any]{Name: "n", ID: "i", Type: discovery.Dynamic, Registered: time.UnixMilli(0)}
	for field, change := range map[string]func(*discovery.ServiceInstance[any]){
		`"port":"8080"`: func(i *discovery.ServiceInstance[any]) { i.Port = number(8080) },
		`"port":8080.0`: func(i *discovery.ServiceInstance[any]) { i.Port = number(8080) },
		`"port":8080.9`: func(i *discovery.ServiceInstance[any]) { i.Port = number(8080) },
		`"port":-80.9`:  func(i *discovery.ServiceInstance[any]) { i.Port = number(-80) },
		`"port":8e3`:    func(i *discovery.ServiceInstance[any]) { i.Port = number(8000) },
		`"port":" 80 "`: func(i *discovery.ServiceInstance[any]) { i.Port = number(80) },
		`"port":"+80"`:  func(i *discovery.ServiceInstance[any]) { i.Port = number(80) },
		`"port":""`:     func(*discovery.ServiceInstance[any]) {},
		`"port":"null"`: func(*discovery.ServiceInstance[any]) {},
		`"port":null`:   func(*discovery.ServiceInstance[any]) {},
		`"sslPort":"443"`: func(i *discovery.ServiceInstance[any]) {
			i.SSLPort = number(443)
		},
		`"registrationTimeUTC":"1700000000000"`: func(i *discovery.ServiceInstance[any]) { i.Registered = time.UnixMilli(1700000000000) },
		`"registrationTimeUTC":1.7e12`:          func(i *discovery.ServiceInstance[any]) { i.Registered = time.UnixMilli(1700000000000) },
		`"registrationTimeUTC":""`:              func(*discovery.ServiceInstance[any]) {},
		`"registrationTimeUTC":null`:            func(*discovery.ServiceInstance[any]) {},
		`"address":7.50`:                        func(i *discovery.ServiceInstance[any]) { i.Address = "7.50" },
		`"id":true`:                             func(i *discovery.ServiceInstance[any]) { i.ID = "true" },
		`"id":"j"`:                              func(i *discovery.ServiceInstance[any]) { i.ID = "j" },
		`"ID":"c"`: func(i *discovery.ServiceInstance[any]) {
			i.Unknown = map[string]json.RawMessage{"ID": json.RawMessage(`"c"`)}
		},
		`"serviceType":1`:          func(i *discovery.ServiceInstance[any]) { i.Type = discovery.Static },
		`"serviceType":"3"`:        func(i *discovery.ServiceInstance[any]) { i.Type = discovery.DynamicSequential },
		`"serviceType":" STATIC "`: func(i *discovery.ServiceInstance[any]) { i.Type = discovery.Static },
		`"enabled":"False"`:        func(i *discovery.ServiceInstance[any]) { i.Disabled = true },
		`"enabled":0`:              func(i *discovery.ServiceInstance[any]) { i.Disabled = true },
		`"enabled":null`:           func(i *discovery.ServiceInstance[any]) { i.Disabled = true },
		`"enabled":""`:             func(i *discovery.ServiceInstance[any]) { i.Disabled = true },
		`"enabled":2`:              func(*discovery.ServiceInstance[any]) {},
		`"uriSpec":null`:           func(*discovery.ServiceInstance[any]) {},
		`"uriSpec":{"parts":[{"value":5},{"Value":"a","variable":"true"}]}`: func(i *discovery.ServiceInstance[any]) {
			i.URI = &discovery.UriSpec{Parts: []discovery.Part{{Value: "5"}, {Variable: true}}}
		},
	} {
		want := whole
		change(&want)
		got, err := discovery.JSONSerializer[any]{}.Deserialize([]byte("\ufeff" + `{"name":"n","id":"i",` + field + `} and more`))
		require.NoError(t, err, field)
		require.Equal(t, want, got, field)
	}
	for _, field := range []string{
		`"port":"8080.0"`, `"port":true`, `"port":3000000000`, `"port":3e9`, `"port":[80]`, `"port":"0x50"`, `"port":1e999999999`,
		`"registrationTimeUTC":1e30`, `"registrationTimeUTC":"soon"`, `"address":[1]`, `"address":{}`, `"name":null`,
		`"serviceType":"static"`, `"serviceType":4`, `"serviceType":""`, `"enabled":"no"`, `"enabled":0.0`, `"enabled":{}`,
		`"uriSpec":""`, `"uriSpec":[]`, `"uriSpec":{"parts":1}`, `"uriSpec":{"parts":[1]}`, `"port":NaN`, `"port":080`,
	} {
		_, err := discovery.JSONSerializer[any]{}.Deserialize([]byte(`{"name":"n","id":"i",` + field + `}`))
		require.ErrorContains(t, err, "discovery: ", field)
	}
}

func TestInstanceLocalAddressIsOneThatOtherMachinesMayReach(t *testing.T) {
	for want, all := range map[string][]string{
		"10.0.0.7":  {"127.0.0.1/8", "169.254.1.1/16", "fd00::2/64", "10.0.0.7/24", "10.1.0.7/24"},
		"192.0.2.2": {"::1/128", "192.0.2.2/24"},
		"fd00::2":   {"127.0.0.1/8", "fe80::1/64", "fd00::2/64"},
	} {
		var addrs []net.Addr
		for _, a := range all {
			ip, network, err := net.ParseCIDR(a)
			require.NoError(t, err)
			addrs = append(addrs, &net.IPNet{IP: ip, Mask: network.Mask})
		}
		require.Equal(t, want, must.Get(discovery.LocalAddressOf(addrs))(t))
	}
	_, err := discovery.LocalAddressOf([]net.Addr{&net.IPNet{IP: net.IPv4(127, 0, 0, 1).To4(), Mask: net.CIDRMask(8, 32)}})
	require.ErrorContains(t, err, "127.0.0.1/8")
	if got, err := discovery.LocalAddress(); err == nil { // a machine may have no network
		require.NotNil(t, net.ParseIP(got))
		require.False(t, net.ParseIP(got).IsLoopback())
	}
}
