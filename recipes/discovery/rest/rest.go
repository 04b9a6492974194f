// SPDX-License-Identifier: Apache-2.0

// Package rest offers a discovery over HTTP, with the paths and the JSON of Curator's
// curator-x-discovery-server, for programs that have that. It gets no new options. The package is experimental until version 0.2: its API may change.
// Nothing is served until a program mounts the handler:
//
//	http.Handle("/discovery/", http.StripPrefix("/discovery", rest.Handler(services, nil)))
//
// The paths are these:
//
//	GET    /v1/service              the names of the services: [{"name":"a"}]
//	GET    /v1/service/{name}       the instances of one service, as an array
//	GET    /v1/service/{name}/{id}  one instance
//	GET    /v1/anyservice/{name}    one instance, which the strategy chooses
//	PUT    /v1/service/{name}/{id}  writes an instance; it must not be dynamic
//	DELETE /v1/service/{name}/{id}  removes an instance
//	GET    /{name}/{id}             one instance; Curator has deprecated it
//
// A PUT writes the znode and keeps nothing, so any number of handlers may serve the same path, and a DELETE at one of
// them ends what was put at another. There is no counterpart of Curator's InstanceCleanup: instances stay until a DELETE.
//
// Every client that reaches the handler may put and delete. So mount it behind a handler that authenticates clients.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/bodies"
	"github.com/gocurator/curator/internal/ownhost"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/nodes"
)

const (
	maxBody = 1 << 20          // bytes of an instance
	limit   = 10 * time.Second // for one request, and for its answer to be read
)

// Handler returns the REST resource of a discovery. The strategy chooses for /v1/anyservice, for all
// services; nil is a [discovery.RoundRobin] of each service.
//
// The status of a PUT is 201, or 400 if the body is no instance, names another instance than the
// path, or is dynamic. The status of a DELETE is 200, or 404 if there is no such instance. Both
// are 409 for an instance that a process, this one included, has registered as a dynamic one. A GET of an
// instance that does not exist is 404. A path with an encoded slash is 400. A request, refused or not, takes at most 10
// seconds, its answer another 10, and a body of 1 MiB. A refusal of the ZooKeeper servers is 500, as in Curator.
//
// Requests for host names that may not be the handler's own get the status 421, because another
// site could have such a name point here. Its own are IP addresses, localhost, the name of the
// machine, and hosts.
func Handler[T any](services *discovery.ServiceDiscovery[T], strategy discovery.Strategy, hosts ...string) http.Handler {
	own := ownhost.New(hosts...)
	s := &resource[T]{services: services, strategy: strategy}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/service", s.names)
	mux.HandleFunc("GET /v1/service/{name}", s.all)
	mux.HandleFunc("GET /v1/service/{name}/{id}", s.one)
	mux.HandleFunc("PUT /v1/service/{name}/{id}", s.put)
	mux.HandleFunc("DELETE /v1/service/{name}/{id}", s.remove)
	mux.HandleFunc("GET /v1/anyservice/{name}", s.anyOf)
	mux.HandleFunc("GET /{name}/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Warning", "This API has been deprecated. Please see the updated spec for the replacement API.")
		s.one(w, r)
	})
	return bodies.Within(limit, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !own.Has(r.Host) {
			http.Error(w, fmt.Sprintf("rest: host %.100q, expected an IP address, localhost or a name that this handler was given", r.Host), http.StatusMisdirectedRequest)
			return
		}
		if strings.Contains(strings.ToLower(r.URL.EscapedPath()), "%2f") {
			http.Error(w, "rest: an encoded slash in the path, expected a name and an id without one", http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		mux.ServeHTTP(w, r.WithContext(ctx))
	}))
}

type resource[T any] struct {
	services *discovery.ServiceDiscovery[T]
	strategy discovery.Strategy // nil for turns
	turns    sync.Map           // the strategies of services with instances, by name
}

// choose returns the index of an instance of a service, or -1.
func (s *resource[T]) choose(name string, instances candidates[T]) int {
	strategy := s.strategy
	if strategy == nil {
		if len(instances) == 0 {
			return -1 // and the name, which is the client's, is not kept
		}
		turns, _ := s.turns.LoadOrStore(name, discovery.RoundRobin())
		strategy = turns.(discovery.Strategy) //nolint:forcetypeassert // nothing else is stored
	}
	return strategy.Choose(instances)
}

// instance is the JSON of JsonServiceInstanceMarshaller: ports and payload are left out where there is none.
type instance[T any] struct {
	Name       string                `json:"name"`
	ID         string                `json:"id"`
	Address    *string               `json:"address"`
	Port       *int                  `json:"port,omitempty"`
	SSLPort    *int                  `json:"sslPort,omitempty"`
	Registered int64                 `json:"registrationTimeUTC"`
	Type       discovery.ServiceType `json:"serviceType"`
	Payload    *T                    `json:"payload,omitempty"`
}

func toJSON[T any](i discovery.ServiceInstance[T]) instance[T] {
	j := instance[T]{Name: i.Name, ID: i.ID, Port: i.Port, SSLPort: i.SSLPort, Type: i.Type, Payload: i.Payload}
	if i.Address != "" {
		j.Address = &i.Address
	}
	if !i.Registered.IsZero() {
		j.Registered = i.Registered.UnixMilli() //nolint:forbidigo // the wire format, no age
	}
	return j
}

// refuse answers an error, and reports whether there was one.
func refuse(w http.ResponseWriter, err error) bool {
	if err == nil {
		return false
	}
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, framework.ErrInvalidPath), errors.Is(err, framework.ErrInvalidOption), errors.Is(err, framework.ErrTooLarge):
		status = http.StatusBadRequest
	case errors.Is(err, nodes.ErrTaken):
		status = http.StatusConflict
	}
	http.Error(w, err.Error(), status)
	return true
}

func write(w http.ResponseWriter, value any, err error) {
	var body bytes.Buffer
	if err == nil {
		encoder := json.NewEncoder(&body)
		encoder.SetEscapeHTML(false) // as Jackson
		err = encoder.Encode(value)
	}
	if refuse(w, err) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit)) // not every writer has deadlines
	_, _ = w.Write(bytes.TrimSuffix(body.Bytes(), []byte("\n")))              // a client that has gone needs nothing
}

func (s *resource[T]) names(w http.ResponseWriter, r *http.Request) {
	type named struct {
		Name string `json:"name"`
	}
	names, err := s.services.Names(r.Context())
	slices.Sort(names)
	list := make([]named, len(names))
	for i, name := range names {
		list[i].Name = name
	}
	write(w, list, err)
}

func (s *resource[T]) all(w http.ResponseWriter, r *http.Request) {
	instances, err := s.services.Instances(r.Context(), r.PathValue("name"))
	list := make([]instance[T], len(instances))
	for i := range instances {
		list[i] = toJSON(instances[i])
	}
	write(w, list, err)
}

func (s *resource[T]) one(w http.ResponseWriter, r *http.Request) {
	found, exists, err := s.services.Instance(r.Context(), r.PathValue("name"), r.PathValue("id"))
	if err == nil && !exists {
		http.Error(w, "no such instance", http.StatusNotFound)
		return
	}
	write(w, toJSON(found), err)
}

// put registers an instance, which must say the same as the path.
func (s *resource[T]) put(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var i discovery.ServiceInstance[T]
	if err == nil {
		i, err = discovery.JSONSerializer[T]{}.Deserialize(body)
	}
	name, id := r.PathValue("name"), r.PathValue("id")
	switch {
	case err != nil:
	case i.Name != name || i.ID != id:
		err = fmt.Errorf("instance %q of %q, expected %q of %q as in the path", i.ID, i.Name, id, name)
	}
	if err != nil {
		http.Error(w, "rest: "+err.Error(), http.StatusBadRequest)
		return
	}
	if !refuse(w, s.services.Put(r.Context(), i)) {
		w.WriteHeader(http.StatusCreated)
	}
}

// remove goes by the path, and not by what the znode there says: that may be the name of another instance.
func (s *resource[T]) remove(w http.ResponseWriter, r *http.Request) {
	existed, err := s.services.Remove(r.Context(), r.PathValue("name"), r.PathValue("id"))
	switch {
	case refuse(w, err):
	case !existed:
		http.Error(w, "no such instance", http.StatusNotFound)
	}
}

// candidates are all instances of one service. None of them is known to be down.
type candidates[T any] []discovery.ServiceInstance[T]

func (c candidates[T]) Len() int            { return len(c) }
func (c candidates[T]) Up(int) bool         { return true }
func (c candidates[T]) ID(index int) string { return c[index].ID }
func (c candidates[T]) Index(id string) int {
	return slices.IndexFunc(c, func(i discovery.ServiceInstance[T]) bool { return i.ID == id })
}

// Instance shows an instance to a strategy that looks at more than ids.
func (c candidates[T]) Instance(index int) *discovery.ServiceInstance[T] { return &c[index] }

func (s *resource[T]) anyOf(w http.ResponseWriter, r *http.Request) {
	instances, err := s.services.Instances(r.Context(), r.PathValue("name"))
	index := -1
	if err == nil {
		err = attempt.Catch(func() error {
			index = s.choose(r.PathValue("name"), instances)
			return nil
		})
	}
	switch {
	case err != nil:
		write(w, nil, err)
	case index < 0 || index >= len(instances):
		http.Error(w, "no instance", http.StatusNotFound)
	default:
		write(w, toJSON(instances[index]), nil)
	}
}
