package discovery

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
)

// maxTries is how many instances one request is sent to at most.
const maxTries = 3

// Transport is an [http.RoundTripper] that sends each request to an instance of
// a service:
//
//	client := &http.Client{Transport: discovery.NewTransport(provider, nil)}
//	response, err := client.Get("http://orders/v1/open")
//
// The host of the URL is the name of the service, and is sent as the Host
// header. A request of the scheme https goes to the SSL port of the instance.
type Transport[T any] struct {
	provider *ServiceProvider[T]
	base     http.RoundTripper
}

// NewTransport returns a transport that takes instances from a provider, which
// the caller starts and closes, and sends with base. A nil base is
// [http.DefaultTransport].
func NewTransport[T any](provider *ServiceProvider[T], base http.RoundTripper) *Transport[T] {
	if base == nil {
		base = http.DefaultTransport
	}
	return &Transport[T]{provider: provider, base: base}
}

// RoundTrip sends a request to an instance. If there is no response, it notes the
// failure at the provider, and sends the request to up to two other instances if
// that is possible and safe. It is possible without a body, or with one that can be
// read again. It is safe if no connection was made, if the method is idempotent as
// RFC 9110 defines it, or if there is an Idempotency-Key header. A response of any
// status is returned unchanged. The end of the request's context counts as no failure.
func (t *Transport[T]) RoundTrip(request *http.Request) (*http.Response, error) {
	if name := request.URL.Hostname(); name != t.provider.Name() {
		closeBody(request)
		return nil, fmt.Errorf("discovery: host %q, expected the service %q", name, t.provider.Name())
	}
	tried := make([]*ServiceInstance[T], 0, maxTries)
	var failure error
	for len(tried) < maxTries {
		instance, err := t.other(tried)
		if err != nil {
			closeBody(request)
			return nil, errors.Join(err, failure)
		}
		attempt, err := directed(request, instance, len(tried) > 0)
		if err != nil {
			closeBody(request)
			return nil, errors.Join(err, failure)
		}
		response, err := t.base.RoundTrip(attempt)
		if err == nil {
			return response, nil
		}
		failure = errors.Join(failure, err)
		if request.Context().Err() != nil {
			return nil, failure
		}
		t.provider.NoteError(instance)
		if !mayRepeat(request, err) {
			return nil, failure
		}
		tried = append(tried, instance)
	}
	return nil, failure
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close() // a round tripper must close it, and has nothing to tell
	}
}

// other chooses an instance that has not been tried.
func (t *Transport[T]) other(tried []*ServiceInstance[T]) (*ServiceInstance[T], error) {
	chosen, err := t.provider.Instance()
	if err != nil || !contains(tried, chosen) {
		return chosen, err
	}
	for _, instance := range t.provider.Instances() {
		if !contains(tried, instance) {
			return instance, nil
		}
	}
	return nil, fmt.Errorf("discovery: %s: %w: all were tried", t.provider.Name(), ErrNoInstance)
}

func contains[T any](tried []*ServiceInstance[T], instance *ServiceInstance[T]) bool {
	return slices.Contains(tried, instance)
}

// directed returns the request as it goes to an instance.
func directed[T any](request *http.Request, instance *ServiceInstance[T], again bool) (*http.Request, error) {
	port := instance.Port
	if request.URL.Scheme == "https" {
		port = instance.SSLPort
	}
	if port == nil || instance.Address == "" {
		return nil, fmt.Errorf("discovery: instance %s of %s has no address and port for %s", instance.ID, instance.Name, request.URL.Scheme)
	}
	clone := request.Clone(request.Context())
	clone.URL.Host = net.JoinHostPort(instance.Address, strconv.Itoa(*port))
	if clone.Host == "" {
		clone.Host = request.URL.Host
	}
	if again && request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return nil, fmt.Errorf("discovery: read the body again: %w", err)
		}
		clone.Body = body
	}
	return clone, nil
}

// mayRepeat reports whether a failed request can be sent to another instance.
func mayRepeat(request *http.Request, err error) bool {
	if request.Body != nil && request.Body != http.NoBody && request.GetBody == nil {
		return false
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true // no server has seen it
	}
	switch request.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	default:
		return request.Header.Get("Idempotency-Key") != ""
	}
}
