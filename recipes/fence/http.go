package fence

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// NewestHeader is the name of the header of a refusal, with the newest token that the
// server has seen.
const NewestHeader = "Fence-Newest"

// Handler passes requests on whose token is the newest, and refuses the others: 428
// (Precondition Required) without a token, 400 (Bad Request) for what is none, 412
// (Precondition Failed) for a stale one, with the newest in [NewestHeader].
//
// Next runs in [Register.Do]: requests with one token at the same time, those with a
// newer one when they have ended. A request that is withdrawn while it waits for that is
// answered 503 (Service Unavailable).
type Handler struct {
	Register *Register // of what the requests change
	Next     http.Handler
}

// ServeHTTP passes the request on or refuses it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := FromHeader(r.Header)
	if err == nil {
		err = h.Register.Do(r.Context(), token, func() error {
			h.Next.ServeHTTP(w, r)
			return nil
		})
	}
	var stale *StaleError
	switch {
	case err == nil:
	case errors.Is(err, ErrNoToken):
		http.Error(w, err.Error(), http.StatusPreconditionRequired)
	case errors.Is(err, ErrInvalidToken):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.As(err, &stale):
		w.Header().Set(NewestHeader, strconv.FormatInt(stale.Newest, 10))
		http.Error(w, err.Error(), http.StatusPreconditionFailed)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// Transport sends the token of a lease with each request, and sends nothing once the
// lease has ended: the error is then that of the lease. A request that was refused for
// its token returns a [*StaleError].
type Transport struct {
	Lease Lease
	Base  http.RoundTripper // nil means http.DefaultTransport
}

// RoundTrip sends a copy of the request with the token.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	fenced := r.Clone(r.Context())
	if err := SetHeader(fenced.Header, t.Lease); err != nil {
		return nil, errors.Join(err, closeBody(r))
	}
	response, err := base.RoundTrip(fenced)
	if err != nil || response.StatusCode != http.StatusPreconditionFailed || response.Header.Get(NewestHeader) == "" {
		return response, err
	}
	newest, err := strconv.ParseInt(response.Header.Get(NewestHeader), 10, 64)
	if err != nil {
		newest = 0
	}
	return nil, errors.Join(&StaleError{Token: t.Lease.Token(), Newest: newest}, response.Body.Close())
}

// closeBody closes the body of a request that is not sent, as is a RoundTripper's duty.
func closeBody(r *http.Request) error {
	if r.Body == nil {
		return nil
	}
	if err := r.Body.Close(); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	return nil
}
