// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gocurator/curator/framework"
)

// ServiceType says how long an instance stays registered. It is Curator's
// ServiceType.
type ServiceType string

const (
	// Dynamic instances go with the session of the process. It is the default.
	Dynamic ServiceType = "DYNAMIC"

	// Static instances stay until they are unregistered.
	Static ServiceType = "STATIC"

	// Permanent is the same as Static in ZooKeeper.
	Permanent ServiceType = "PERMANENT"

	// DynamicSequential instances are Dynamic, and the server appends ten digits to
	// the id in the name of the znode.
	DynamicSequential ServiceType = "DYNAMIC_SEQUENTIAL"
)

func (t ServiceType) isDynamic() bool { return t == Dynamic || t == DynamicSequential }

// mode returns what kind of znode stands for an instance of the type.
func (t ServiceType) mode() (framework.CreateMode, error) {
	switch t {
	case Dynamic:
		return framework.Ephemeral, nil
	case DynamicSequential:
		return framework.EphemeralSequential, nil
	case Static, Permanent:
		return framework.Persistent, nil
	default:
		return 0, fmt.Errorf("%w: service type %q, expected DYNAMIC, STATIC, PERMANENT or DYNAMIC_SEQUENTIAL", framework.ErrInvalidOption, string(t))
	}
}

// ServiceInstance is one instance of a service, with a payload of type T; any
// where there is none. It is Curator's class of that name.
type ServiceInstance[T any] struct {
	Name    string
	ID      string
	Address string // "" is written as null; [ServiceDiscovery.Register] refuses it without a URI or a payload

	// Port and SSLPort are nil where there is none.
	Port, SSLPort *int

	// Payload is nil where there is none.
	Payload *T

	Registered time.Time // in whole milliseconds
	Type       ServiceType
	URI        *UriSpec // nil where there is none

	// Disabled instances are registered, and no [ServiceProvider] returns them.
	// It is written only with the Enabled of [JSONSerializer], as in Curator.
	Disabled bool

	// Unknown has the fields of the JSON that this version does not know. They are
	// written back as they were read.
	Unknown map[string]json.RawMessage
}

// NewInstance returns a dynamic instance of a service at an address, with a
// random id, registered now. A port of 0 is none.
func NewInstance[T any](name, address string, port int) ServiceInstance[T] {
	instance := ServiceInstance[T]{
		Name: name, ID: uuid.NewString(), Address: address, Type: Dynamic,
		Registered: time.UnixMilli(time.Now().UnixMilli()), //nolint:forbidigo // the wire format, no age
	}
	if port != 0 {
		instance.Port = &port
	}
	return instance
}

// LocalAddress returns an address of this machine for [NewInstance], as Curator has it by default: the first one that
// other machines may reach, so neither a loopback nor a link-local one. IPv4 comes before IPv6. On a machine with
// several networks say which address is meant instead.
func LocalAddress() (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("discovery: addresses of this machine: %w", err)
	}
	return localAddress(all)
}

func localAddress(all []net.Addr) (string, error) {
	var found []netip.Addr
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
			found = append(found, prefix.Addr())
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("discovery: this machine has the addresses %v, expected one that other machines may reach", all)
	}
	i := max(0, slices.IndexFunc(found, netip.Addr.Is4))
	return found[i].String(), nil
}

// BuildURI returns the URI that the instance's specification describes, "" if it has
// none. Variables that are given come before the variables of the instance.
func (i ServiceInstance[T]) BuildURI(variables map[string]string) string {
	if i.URI == nil {
		return ""
	}
	own := map[string]string{
		FieldName: i.Name, FieldID: i.ID, FieldAddress: i.Address, FieldPort: number(i.Port), FieldSSLPort: number(i.SSLPort),
		FieldRegistrationTime: fmt.Sprint(i.registeredMillis()), FieldServiceType: strings.ToLower(string(i.Type)),
	}
	if i.SSLPort != nil {
		own[FieldScheme] = "https"
	}
	maps.Copy(own, variables)
	return i.URI.Build(own)
}

func number(n *int) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// registeredMillis returns the time of registration as Curator writes it, 0 for
// none.
func (i ServiceInstance[T]) registeredMillis() int64 {
	if i.Registered.IsZero() {
		return 0
	}
	return i.Registered.UnixMilli() //nolint:forbidigo // the wire format, no age
}

// check refuses an instance that cannot be registered.
func (i ServiceInstance[T]) check() error {
	for what, name := range map[string]string{"name": i.Name, "id": i.ID} {
		if name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("%w: %s %q, expected a name without a slash", framework.ErrInvalidOption, what, name)
		}
	}
	for what, port := range map[string]*int{"port": i.Port, "SSL port": i.SSLPort} {
		if port != nil && (*port < 0 || *port > 65535) {
			return fmt.Errorf("%w: %s %d, expected 0 to 65535", framework.ErrInvalidOption, what, *port)
		}
	}
	_, err := i.Type.mode()
	return err
}

// Serializer turns instances into the data of znodes and back.
type Serializer[T any] interface {
	// Serialize returns the data of the znode of an instance.
	Serialize(instance ServiceInstance[T]) ([]byte, error)

	// Deserialize returns the instance in the data of a znode.
	Deserialize(data []byte) (ServiceInstance[T], error)
}

// JSONSerializer writes and reads the JSON of Curator's JsonInstanceSerializer:
// the same fields in the same order, and null for what is missing. Only the
// escapes of some control characters differ.
type JSONSerializer[T any] struct {
	// Class is the Java class of the payload. Java needs it to read a payload that is
	// an object. It is written as "@class", the first field of the payload. Payloads
	// that are a text, a truth value, an int or a double need none. All other payloads
	// are written as an array of the class and the value.
	Class string

	// Enabled writes the field "enabled" as well, as Curator does with
	// compatibleSerializationMode false. Clients of Curator before 3.0 cannot read it.
	Enabled bool
}

// document is the JSON in Curator's order.
type document struct {
	Name       string          `json:"name"`
	ID         string          `json:"id"`
	Address    *string         `json:"address"`
	Port       *int            `json:"port"`
	SSLPort    *int            `json:"sslPort"`
	Payload    json.RawMessage `json:"payload"`
	Registered int64           `json:"registrationTimeUTC"`
	Type       ServiceType     `json:"serviceType"`
	URI        *UriSpec        `json:"uriSpec"`
	Enabled    *bool           `json:"enabled,omitempty"`
}

// known are the fields of a document.
var known = []string{
	"name", "id", "address", "port", "sslPort", "payload", "registrationTimeUTC", "serviceType", "uriSpec", "enabled",
}

// Serialize returns the JSON of an instance.
func (s JSONSerializer[T]) Serialize(i ServiceInstance[T]) ([]byte, error) {
	doc := document{
		Name: i.Name, ID: i.ID, Port: i.Port, SSLPort: i.SSLPort, Registered: i.registeredMillis(), Type: i.Type, URI: i.URI,
	}
	if i.Address != "" {
		doc.Address = &i.Address
	}
	if s.Enabled {
		enabled := !i.Disabled
		doc.Enabled = &enabled
	}
	payload, err := s.payload(i.Payload)
	if err != nil {
		return nil, fmt.Errorf("discovery: payload of %s: %w", i.ID, err)
	}
	doc.Payload = payload
	data, err := marshal(doc)
	if err != nil || len(i.Unknown) == 0 {
		return data, err
	}
	data = data[:len(data)-1]
	for _, field := range slices.Sorted(maps.Keys(i.Unknown)) {
		if slices.Contains(known, field) {
			return nil, fmt.Errorf("discovery: unknown field %q of %s, expected no field that an instance has itself", field, i.ID)
		}
		name, err := marshal(field)
		if err != nil {
			return nil, err
		}
		if !json.Valid(i.Unknown[field]) {
			return nil, fmt.Errorf("discovery: unknown field %q of %s has %q, expected JSON", field, i.ID, i.Unknown[field])
		}
		data = slices.Concat(data, []byte(","), name, []byte(":"), i.Unknown[field])
	}
	return append(data, '}'), nil
}

// marshal is json.Marshal without escapes for HTML, which Jackson does not make.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// payload writes the type as Jackson's JsonTypeInfo(CLASS) does.
func (s JSONSerializer[T]) payload(payload *T) (json.RawMessage, error) {
	if payload == nil {
		return json.RawMessage("null"), nil
	}
	value, err := marshal(payload)
	if err != nil || s.Class == "" || bytes.Equal(value, []byte("null")) {
		return value, err
	}
	class, err := marshal(s.Class)
	if err != nil {
		return nil, err
	}
	switch {
	case bytes.Equal(value, []byte("{}")):
		return slices.Concat([]byte(`{"@class":`), class, []byte("}")), nil
	case value[0] == '{':
		return slices.Concat([]byte(`{"@class":`), class, []byte(","), value[1:]), nil
	default:
		return slices.Concat([]byte("["), class, []byte(","), value, []byte("]")), nil
	}
}

// errNotAnInstance reports data that has no name or id.
var errNotAnInstance = errors.New("no name or no id, expected the JSON of an instance")

// Deserialize reads the JSON of an instance, as Java does: see the table of the package. Fields that
// are missing have Curator's defaults: an instance is dynamic and enabled.
func (s JSONSerializer[T]) Deserialize(data []byte) (ServiceInstance[T], error) {
	var i ServiceInstance[T]
	f, err := readFields(data)
	if err != nil {
		return i, fmt.Errorf("discovery: %w", err)
	}
	i.Name, _ = f.text("name")
	i.ID, _ = f.text("id")
	i.Address, _ = f.text("address")
	for name, into := range map[string]**int{"port": &i.Port, "sslPort": &i.SSLPort} {
		if n, found := f.integer(name, 32); found {
			port := int(n)
			*into = &port
		}
	}
	registered, _ := f.integer("registrationTimeUTC", 64)
	enabled, isSaid := f.truth("enabled")
	i.Registered, i.Type, i.URI, i.Disabled = time.UnixMilli(registered), f.serviceType("serviceType"), f.uriSpec("uriSpec"), isSaid && !enabled
	switch {
	case f.err != nil:
		return i, fmt.Errorf("discovery: %w", f.err)
	case i.Name == "" || i.ID == "":
		return i, fmt.Errorf("discovery: %w", errNotAnInstance)
	}
	payload := f.of["payload"]
	maps.DeleteFunc(f.of, func(field string, _ json.RawMessage) bool { return slices.Contains(known, field) })
	if len(f.of) > 0 {
		i.Unknown = f.of
	}
	if len(payload) == 0 || bytes.Equal(payload, []byte("null")) {
		return i, nil
	}
	i.Payload = new(T)
	if err := readPayload(payload, i.Payload); err != nil {
		return i, fmt.Errorf("discovery: payload of %s: %w", i.ID, err)
	}
	return i, nil
}

// readPayload reads a payload with or without its Java class.
func readPayload[T any](data json.RawMessage, into *T) error {
	err := json.Unmarshal(withoutClass(data), into)
	if err != nil { // it may be a list of two texts
		var whole T
		if json.Unmarshal(data, &whole) == nil {
			*into, err = whole, nil
		}
	}
	if err != nil {
		return err
	}
	if fields, ok := any(*into).(map[string]any); ok {
		delete(fields, "@class")
	}
	return nil
}

// withoutClass returns the value of Jackson's form of what is no object, an array of the class and
// the value. Other JSON it returns as it is, such as a list of two addresses.
func withoutClass(data json.RawMessage) json.RawMessage {
	var typed []json.RawMessage
	var class string
	if data[0] != '[' || json.Unmarshal(data, &typed) != nil || len(typed) != 2 || json.Unmarshal(typed[0], &class) != nil {
		return data
	}
	parts := strings.Split(class, ".")
	isNoName := func(part string) bool { return part == "" || '0' <= part[0] && part[0] <= '9' }
	if len(parts) < 2 || slices.ContainsFunc(parts, isNoName) {
		return data
	}
	return typed[1]
}
