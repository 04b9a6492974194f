// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gocurator/curator/internal/bodies"
)

// NewestHeader is the name of the header of a refusal, with the newest token that the
// server has seen.
const NewestHeader = "Fence-Newest"

// Handler forwards requests that carry the newest token and rejects all others. It answers
// 428 (Precondition Required) without a token, and 400 (Bad Request) if the token is
// malformed. It answers 412 (Precondition Failed) if the token is stale, with the newest
// token in [NewestHeader].
//
// Next runs in [Register.Do]. Requests with one token run at the same time; requests with a
// newer token run when the older ones have ended. So Next must bound how long it reads a
// body. A request whose context ends during that wait is answered 503 (Service Unavailable).
//
// A token is a claim of the client, and the largest one locks all other clients out. Use
// Verify, or let only clients that you trust reach the handler.
type Handler struct {
	Register *Register // of what the requests change
	Next     http.Handler

	// Verify, if not nil, reports whether a token belongs to the lock. It is asked only for a
	// token that is newer than all that were accepted, so about once per holder. If it
	// returns false, the request is answered 403 (Forbidden), and if it fails, 503. The
	// register has not seen the token then. Verify may be called concurrently.
	Verify func(ctx context.Context, token int64) (bool, error)
}

var (
	errForged     = errors.New("fence: the token belongs to no holder of the lock")
	errIncomplete = errors.New("fence: a Handler without Register or Next, expected both")
	errUnverified = errors.New("fence: the token cannot be verified now")
)

// ServeHTTP forwards the request or rejects it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.forward(w, r); err != nil {
		bodies.Within(bodies.Unread, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { refuse(w, err) })).ServeHTTP(w, r)
	}
}

// forward returns an error without an answer if it does not forward the request.
func (h *Handler) forward(w http.ResponseWriter, r *http.Request) error {
	if h.Register == nil || h.Next == nil {
		return errIncomplete
	}
	token, err := FromHeader(r.Header)
	if err == nil {
		err = h.verify(r.Context(), token)
	}
	if err != nil {
		return err
	}
	return h.Register.Do(r.Context(), token, func() error {
		h.Next.ServeHTTP(w, r)
		return nil
	})
}

func refuse(w http.ResponseWriter, err error) {
	var stale *StaleError
	switch {
	case errors.Is(err, errIncomplete):
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case errors.Is(err, ErrNoToken):
		http.Error(w, err.Error(), http.StatusPreconditionRequired)
	case errors.Is(err, ErrInvalidToken):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.As(err, &stale):
		w.Header().Set(NewestHeader, strconv.FormatInt(stale.Newest, 10))
		http.Error(w, err.Error(), http.StatusPreconditionFailed)
	case errors.Is(err, errForged):
		http.Error(w, err.Error(), http.StatusForbidden)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// verify returns an error if a token is newer than all that were accepted, and is not known
// to belong to the lock.
func (h *Handler) verify(ctx context.Context, token int64) error {
	if h.Verify == nil || token <= h.Register.Newest() {
		return nil
	}
	belongs, err := h.Verify(ctx, token)
	switch {
	case err != nil:
		return errUnverified // the client need not know why
	case !belongs:
		return errForged
	default:
		return nil
	}
}

// Transport sends the token of a lease with each request. When the lease has ended it
// sends nothing and returns the lease's error; when the lease is not exclusive it returns
// [ErrShared]. A request that the server rejects for its token returns a [*StaleError].
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
	fenced := r.Clone(r.Context()) // a RoundTripper must not change the request
	if err := SetHeader(fenced.Header, t.Lease); err != nil {
		return nil, errors.Join(err, closeBody(r))
	}
	response, err := base.RoundTrip(fenced)
	// A server may answer 412 for other reasons: only a Handler sets the header.
	if err != nil || response.StatusCode != http.StatusPreconditionFailed || response.Header.Get(NewestHeader) == "" {
		return response, err
	}
	newest, err := strconv.ParseInt(response.Header.Get(NewestHeader), 10, 64)
	if err != nil {
		newest = 0
	}
	return nil, errors.Join(&StaleError{Token: t.Lease.Token(), Newest: newest}, response.Body.Close())
}

// closeBody closes the body of a request that is not sent, as a RoundTripper must.
func closeBody(r *http.Request) error {
	if r.Body == nil {
		return nil
	}
	if err := r.Body.Close(); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	return nil
}
