// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/fence"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// lease is one whose state is set by hand.
type lease struct {
	token int64
	err   error
}

func (l *lease) Token() int64 { return l.token }
func (l *lease) Err() error   { return l.err }

// TestHeader: what is set is read again, and everything else is refused.
func TestHeader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.Int64Range(1, math.MaxInt64).Draw(t, "token")
		header := http.Header{}
		require.NoError(t, fence.SetHeader(header, &lease{token: token}))
		got, err := fence.FromHeader(header)
		require.NoError(t, err)
		require.Equal(t, token, got)

		value := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-+ 0]?[0-9]{1,22}[ .]?`)).Draw(t, "value")
		got, err = fence.FromHeader(http.Header{fence.Header: {value}})
		n, parseErr := strconv.ParseUint(value, 10, 63)
		if parseErr == nil && n > 0 && value[0] != '0' {
			require.NoError(t, err)
			require.EqualValues(t, n, got)
		} else {
			require.ErrorIs(t, err, fence.ErrInvalidToken, "%q", value)
		}
	})
	for value, message := range map[string]string{
		"9223372036854775808": `fence: invalid fencing token: Fence-Token: "9223372036854775808", expected a number from 1 to 9223372036854775807`,
		"-1":                  `fence: invalid fencing token: Fence-Token: "-1", expected a number from 1 to 9223372036854775807`,
	} {
		token, err := fence.FromHeader(http.Header{fence.Header: {value}})
		require.EqualError(t, err, message)
		require.Zero(t, token)
	}
	token, err := fence.FromHeader(http.Header{fence.Header: {"1", "2"}})
	require.ErrorIs(t, err, fence.ErrInvalidToken)
	require.Zero(t, token)
	token, err = fence.FromHeader(http.Header{})
	require.ErrorIs(t, err, fence.ErrNoToken)
	require.Zero(t, token)
	over := errors.New("over")
	header := http.Header{}
	require.ErrorIs(t, fence.SetHeader(header, &lease{1, over}), over)
	require.ErrorIs(t, fence.SetHeader(header, &lease{token: 0}), fence.ErrInvalidToken)
	require.ErrorContains(t, fence.SetHeader(header, nil), "lease nil")
	require.ErrorContains(t, fence.SetHeader(header, locks.LeaseFrom(t.Context())), "lease nil", "of no lease")
	require.Empty(t, header)
	require.ErrorContains(t, fence.SetHeader(nil, &lease{token: 1}), "header nil")
}

// server counts what gets through.
func server(t *testing.T) (url string, passed func() int) {
	t.Helper()
	n := 0
	s := httptest.NewServer(&fence.Handler{Register: &fence.Register{}, Next: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { n++; w.WriteHeader(http.StatusNoContent) })})
	t.Cleanup(s.Close)
	return s.URL, func() int { return n }
}

func TestHandlerRefuses(t *testing.T) {
	url, passed := server(t)
	for _, c := range []struct {
		token  []string
		status int
		newest string
	}{
		{[]string{"7"}, http.StatusNoContent, ""},
		{[]string{"7"}, http.StatusNoContent, ""},
		{[]string{"6"}, http.StatusPreconditionFailed, "7"},
		{nil, http.StatusPreconditionRequired, ""},
		{[]string{"seven"}, http.StatusBadRequest, ""},
		{[]string{"9", "9"}, http.StatusBadRequest, ""},
		{[]string{"8"}, http.StatusNoContent, ""},
		{[]string{"7"}, http.StatusPreconditionFailed, "8"},
	} {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPut, url, http.NoBody))(t)
		request.Header[fence.Header] = c.token
		response := must.Get(http.DefaultClient.Do(request))(t)
		require.NoError(t, response.Body.Close())
		require.Equal(t, c.status, response.StatusCode, "%v", c.token)
		require.Equal(t, c.newest, response.Header.Get(fence.NewestHeader))
	}
	require.Equal(t, 3, passed())
	http.DefaultClient.CloseIdleConnections()
}

func TestHandlerThatLacksAField(t *testing.T) {
	for _, handler := range []*fence.Handler{{Register: &fence.Register{}}, {Next: http.NotFoundHandler()}} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/report", http.NoBody)
		request.Header.Set(fence.Header, "1")
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		require.Equal(t, http.StatusInternalServerError, response.Code)
		require.Contains(t, response.Body.String(), "Register or Next")
	}
}

func TestTransport(t *testing.T) {
	url, passed := server(t)
	older, newer := &lease{token: 14}, &lease{token: 19}
	put := func(l *lease) error {
		body := &closing{Reader: strings.NewReader("text")}
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPut, url, body))(t)
		client := &http.Client{Transport: &fence.Transport{Lease: l}}
		response, err := client.Do(request)
		require.True(t, body.closed)
		require.Empty(t, request.Header)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	require.NoError(t, put(older))
	require.NoError(t, put(newer))
	err := put(older)
	require.ErrorIs(t, err, fence.ErrStale)
	require.Equal(t, fence.StaleError{Token: 14, Newest: 19}, *must.As[*fence.StaleError](t, err))
	newer.err = errors.New("the lease is over")
	require.ErrorIs(t, put(newer), newer.err)
	require.Equal(t, 2, passed())
	http.DefaultClient.CloseIdleConnections()
}

// closing notes that it was closed.
type closing struct {
	io.Reader

	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// shared is a lease beside which others are valid.
type shared struct{ lease }

func (*shared) Exclusive() bool { return false }

// TestHTTPTokenOfASharedLeaseIsNotSent: its holder would be refused although it has lost
// nothing.
func TestHTTPTokenOfASharedLeaseIsNotSent(t *testing.T) {
	url, passed := server(t)
	header := make(http.Header)
	require.ErrorIs(t, fence.SetHeader(header, &shared{lease{token: 4}}), fence.ErrShared)
	require.Empty(t, header)
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPut, url, http.NoBody))(t)
	response, err := (&fence.Transport{Lease: &shared{lease{token: 4}}}).RoundTrip(request)
	if response != nil {
		require.NoError(t, response.Body.Close())
	}
	require.ErrorIs(t, err, fence.ErrShared)
	require.Zero(t, passed())
}

// TestHTTPWhichLeasesFence: the leases of locks that one owner holds at a time, and no others.
func TestHTTPWhichLeasesFence(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	rw := must.Get(locks.NewInterProcessReadWriteLock(client, "/locks/rw"))(t)
	mutex := must.Get(locks.NewInterProcessMutex(client, "/locks/mutex"))(t)
	semaphore := must.Get(locks.NewInterProcessSemaphoreV2(client, "/locks/semaphore", locks.FixedLeases(2)))(t)
	for lock, want := range map[locks.InterProcessLock]error{
		mutex: nil, rw.WriteLock(): nil, rw.ReadLock(): fence.ErrShared, semaphore: fence.ErrShared,
	} {
		err := locks.Do(t.Context(), lock, func(ctx context.Context) error {
			return fence.SetHeader(make(http.Header), locks.LeaseFrom(ctx))
		})
		require.ErrorIs(t, err, want, "%T", lock)
	}
}

// A token from outside that no lock has given out must not lock the holders out.
func TestHandlerVerifies(t *testing.T) {
	var register fence.Register
	var asked []int64
	down := errors.New("no server answers at 10.0.0.7")
	s := httptest.NewServer(&fence.Handler{
		Register: &register,
		Next:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		Verify: func(_ context.Context, token int64) (bool, error) {
			asked = append(asked, token)
			if token == 9 {
				return false, down
			}
			return token < 100, nil
		},
	})
	defer s.Close()
	for _, c := range []struct {
		token  string
		status int
		newest int64
	}{
		{"7", http.StatusNoContent, 7},
		{"7", http.StatusNoContent, 7},
		{"6", http.StatusPreconditionFailed, 7},
		{"9223372036854775807", http.StatusForbidden, 7},
		{"9", http.StatusServiceUnavailable, 7},
		{"8", http.StatusNoContent, 8},
	} {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL, http.NoBody))(t)
		request.Header.Set(fence.Header, c.token)
		response := must.Get(http.DefaultClient.Do(request))(t)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, errors.Join(err, response.Body.Close()))
		require.Equal(t, c.status, response.StatusCode, c.token)
		require.NotContains(t, string(body), "10.0.0.7")
		require.Equal(t, c.newest, register.Newest(), c.token)
	}
	require.Equal(t, []int64{7, math.MaxInt64, 9, 8}, asked, "known and stale tokens need no question")
}
