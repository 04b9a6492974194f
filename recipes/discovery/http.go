// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync/atomic"
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

// RoundTrip sends a request to an instance that has a port for its scheme. If there is no
// response, it notes the failure at the provider. It then sends the request to up to two other
// instances if that is possible and safe. It is possible without a body, or with a body that can
// be read again. It is safe if no connection was made, if the method is idempotent as RFC 9110
// defines it, or if there is an Idempotency-Key header. A response of any status is returned
// unchanged.
//
// RoundTrip does not note a failure that is not the instance's fault. The caller's fault are the
// end of the request's context, a request that net/http refuses, and a body that cannot be read.
// A proxy that cannot be reached and a certificate that the client does not trust are not the
// instance's fault either.
func (t *Transport[T]) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.check(request); err != nil {
		closeBody(request)
		return nil, err
	}
	tried := make([]*ServiceInstance[T], 0, maxTries)
	var failure error
	for len(tried) < maxTries {
		instance, err := t.provider.choose(func(i *ServiceInstance[T]) bool {
			return port(i, request.URL.Scheme) != nil && !slices.Contains(tried, i)
		})
		if err != nil {
			closeBody(request)
			return nil, errors.Join(err, failure)
		}
		attempt, err := directed(request, instance, len(tried) > 0)
		if err != nil {
			closeBody(request)
			return nil, errors.Join(err, failure)
		}
		try := newTry(attempt)
		response, err := t.base.RoundTrip(try.request)
		if err == nil {
			return response, nil
		}
		failure = errors.Join(failure, err)
		if try.isOver() {
			return nil, failure
		}
		if try.blames(err) {
			t.provider.NoteError(instance)
		}
		if !mayRepeat(request, err) {
			return nil, failure
		}
		tried = append(tried, instance)
	}
	return nil, failure
}

// check refuses a request that can be sent to no instance.
func (t *Transport[T]) check(request *http.Request) error {
	if request.URL == nil {
		return errors.New("discovery: request without a URL, expected one such as http://" + t.provider.Name())
	}
	if scheme := request.URL.Scheme; scheme != "http" && scheme != "https" {
		return fmt.Errorf("discovery: scheme %q, expected http or https", scheme)
	}
	if name := request.URL.Hostname(); name != t.provider.Name() {
		return fmt.Errorf("discovery: host %q, expected the service %q", name, t.provider.Name())
	}
	return nil
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close() // a round tripper must close it, and has nothing to tell
	}
}

// port returns where an instance serves a scheme, nil for nowhere.
func port[T any](instance *ServiceInstance[T], scheme string) *int {
	switch {
	case instance.Address == "":
		return nil
	case scheme == "https":
		return instance.SSLPort
	default:
		return instance.Port
	}
}

// directed returns the request as it goes to an instance.
func directed[T any](request *http.Request, instance *ServiceInstance[T], again bool) (*http.Request, error) {
	clone := request.Clone(request.Context())
	clone.URL.Host = net.JoinHostPort(instance.Address, strconv.Itoa(*port(instance, request.URL.Scheme)))
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

// try is one request to one instance. It distinguishes the instance's failures from the
// caller's.
type try struct {
	request *http.Request
	phase   atomic.Int32 // how far net/http has come with it
	broken  atomic.Bool  // its body cannot be sent
}

// The phases of a try. A base that is no [http.Transport] may tell none.
const (
	connecting int32 = iota + 1 // net/http has accepted the request so far
	connected                   // and goes on to look at the rest of it
	sent                        // and has written the head of it
)

func newTry(request *http.Request) *try {
	t := new(try)
	t.request = request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		GetConn:      func(string) { t.phase.Store(connecting) },
		GotConn:      func(httptrace.GotConnInfo) { t.phase.Store(connected) },
		WroteHeaders: func() { t.phase.Store(sent) },
	}))
	if request.Body != nil && request.Body != http.NoBody {
		t.request.Body = t.watch(request.Body)
	}
	if request.GetBody != nil { // net/http itself repeats a request if an idle connection is gone
		t.request.GetBody = func() (io.ReadCloser, error) {
			body, err := request.GetBody()
			if err != nil {
				t.broken.Store(true)
				return nil, err
			}
			return t.watch(body), nil
		}
	}
	return t
}

func (t *try) watch(body io.ReadCloser) io.ReadCloser {
	return &watchedBody{ReadCloser: body, left: t.request.ContentLength, sized: t.request.ContentLength > 0, broken: &t.broken}
}

// isOver reports whether no other instance could serve the request: its context has ended, or
// its body is broken.
func (t *try) isOver() bool { return t.request.Context().Err() != nil || t.broken.Load() }

// blames reports whether a failure is the instance's.
func (t *try) blames(err error) bool {
	var op *net.OpError
	var network net.Error
	switch phase := t.phase.Load(); {
	case errors.As(err, &op) && op.Op == "proxyconnect",
		errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(tls.AlertError)), // either side may lack a certificate
		errors.Is(err, http.ErrSkipAltProtocol):
		return false
	case phase == connecting || phase == sent:
		return true
	case errors.Is(err, net.ErrClosed): // net/http itself has closed the connection, on an error of the request
		return false
	default: // net/http refuses the rest of a request once it has a connection
		return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	}
}

// watchedBody notes that a body cannot be sent: it fails, or has another length than the request says.
type watchedBody struct {
	io.ReadCloser

	left   int64 // of the length; of the goroutine that reads
	sized  bool
	closed atomic.Bool // by net/http, whatever the reason
	broken *atomic.Bool
}

func (b *watchedBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	b.left -= int64(n)
	ended := err == io.EOF // as net/http compares it
	if (err != nil && !ended && !b.closed.Load()) || (b.sized && (b.left < 0 || (ended && b.left > 0))) {
		b.broken.Store(true)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
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
