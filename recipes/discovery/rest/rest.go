// SPDX-License-Identifier: Apache-2.0

// Package rest offers a discovery over HTTP, with the paths and the JSON of Curator's
// curator-x-discovery-server. Nothing is served until a program mounts the handler:
//
//	http.Handle("/discovery/", http.StripPrefix("/discovery", rest.Handler(services, nil)))
//
// The paths are these:
//
//	GET    /v1/service              the names of the services: [{"name":"a"}]
//	GET    /v1/service/{name}       the instances of one service, as an array
//	GET    /v1/service/{name}/{id}  one instance
//	GET    /v1/anyservice/{name}    one instance, which the strategy chooses
//	PUT    /v1/service/{name}/{id}  registers an instance; it must not be dynamic
//	DELETE /v1/service/{name}/{id}  unregisters an instance that was put here
//	GET    /{name}/{id}             one instance; Curator has deprecated it
//
// Every client that reaches the handler may register and unregister. So mount it behind a handler
// that authenticates clients. There is no counterpart of Curator's InstanceCleanup: static
// instances stay.
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
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

const (
	maxBody = 1 << 20          // bytes of an instance
	limit   = 10 * time.Second // for one request, and for its answer to be read
)

// Handler returns the REST resource of a discovery. The strategy chooses for /v1/anyservice, for all
// services; nil is a [discovery.RoundRobin] of each service.
//
// The status of a PUT is 201, or 400 if the body is no instance, names another instance than the
// path, or is dynamic. The status of a DELETE is 200 whether or not the instance was there. An
// instance that does not exist is 404. A request takes at most 10 seconds, its answer
// another 10, and a body of 1 MiB. A refusal of the ZooKeeper servers is 500, as in Curator.
//
// A PUT registers for as long as the discovery is open, see [discovery.ServiceDiscovery.Register].
// Closing the discovery unregisters all these instances.
func Handler[T any](services *discovery.ServiceDiscovery[T], strategy discovery.Strategy) http.Handler {
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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		if r.ContentLength != 0 {
			setReadDeadline(w, time.Now().Add(limit))
		}
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// setReadDeadline bounds how long a body may take to come. It must not be there while net/http waits for the next request of
// the connection: a deadline that passes then ends the contexts of all later ones.
func setReadDeadline(w http.ResponseWriter, t time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(t) // not every writer has deadlines
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

func (j instance[T]) instance() discovery.ServiceInstance[T] {
	i := discovery.ServiceInstance[T]{Name: j.Name, ID: j.ID, Port: j.Port, SSLPort: j.SSLPort, Type: j.Type, Payload: j.Payload}
	if j.Address != nil {
		i.Address = *j.Address
	}
	if j.Registered != 0 {
		i.Registered = time.UnixMilli(j.Registered)
	}
	return i
}

func write(w http.ResponseWriter, value any, err error) {
	if errors.Is(err, framework.ErrInvalidPath) {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var body bytes.Buffer
	if err == nil {
		encoder := json.NewEncoder(&body)
		encoder.SetEscapeHTML(false) // as Jackson
		err = encoder.Encode(value)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
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
	if err == nil {
		setReadDeadline(w, time.Time{})
	}
	var j instance[T]
	if err == nil {
		err = json.Unmarshal(body, &j)
	}
	name, id := r.PathValue("name"), r.PathValue("id")
	switch {
	case err != nil:
	case j.Name != name || j.ID != id:
		err = fmt.Errorf("instance %q of %q, expected %q of %q as in the path", j.ID, j.Name, id, name)
	case j.Type != discovery.Static && j.Type != discovery.Permanent:
		err = fmt.Errorf("service type %q, expected STATIC or PERMANENT", j.Type)
	}
	if err != nil {
		http.Error(w, "rest: "+err.Error(), http.StatusBadRequest)
		return
	}
	err = s.services.Register(r.Context(), j.instance())
	switch {
	case errors.Is(err, framework.ErrInvalidOption), errors.Is(err, framework.ErrTooLarge):
		http.Error(w, "rest: "+err.Error(), http.StatusBadRequest)
	case err != nil:
		write(w, nil, err)
	default:
		w.WriteHeader(http.StatusCreated)
	}
}

// remove goes by the path, and not by what the znode there says: that may be the name of another instance.
func (s *resource[T]) remove(w http.ResponseWriter, r *http.Request) {
	instance := discovery.ServiceInstance[T]{Name: r.PathValue("name"), ID: r.PathValue("id")}
	if err := s.services.Unregister(instance); err != nil {
		write(w, nil, err)
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

func (s *resource[T]) anyOf(w http.ResponseWriter, r *http.Request) {
	instances, err := s.services.Instances(r.Context(), r.PathValue("name"))
	if err != nil {
		write(w, nil, err)
		return
	}
	index := -1
	err = attempt.Catch(func() error {
		index = s.choose(r.PathValue("name"), instances)
		return nil
	})
	if err != nil {
		write(w, nil, err)
		return
	}
	if index < 0 || index >= len(instances) {
		http.Error(w, "no instance", http.StatusNotFound)
		return
	}
	write(w, toJSON(instances[index]), nil)
}
