// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gocurator/curator/internal/options"
)

// Header is the name of the HTTP header with a token, in decimal digits.
const Header = "Fence-Token"

var (
	// ErrNoToken reports that a request has no token.
	ErrNoToken = errors.New("no fencing token")

	// ErrShared reports that several leases may be valid at once, as with a read lease or a
	// permit of a semaphore. A token that the receiver has seen may be newer although the
	// lease is valid.
	ErrShared = errors.New("the lease is not exclusive, expected one of a mutex, a write lock or another lock with one holder")
)

// Lease is the source of a token, such as a lease of package locks. A lease with the method
// Exclusive() bool, which the leases of package locks have, is refused when it returns
// false.
type Lease interface {
	// Token returns a number greater than the token of every earlier holder.
	Token() int64

	// Err returns nil while the lease is valid.
	Err() error
}

// SetHeader sets the token of the lease in the header. On failure it sets nothing. If the
// lease has ended, it returns the lease's error. If the lease is not exclusive, the error
// matches [ErrShared].
func SetHeader(header http.Header, lease Lease) error {
	switch {
	case header == nil:
		return errors.New("fence: header nil, expected one such as http.Header{}")
	case options.IsNil(lease): // as locks.LeaseFrom returns it without a lease
		return errors.New("fence: lease nil, expected one that is held")
	}
	if shared, ok := lease.(interface{ Exclusive() bool }); ok && !shared.Exclusive() {
		return fmt.Errorf("fence: %w", ErrShared)
	}
	if err := lease.Err(); err != nil {
		return fmt.Errorf("fence: %w", err)
	}
	token := lease.Token()
	if token < 1 {
		return fmt.Errorf("fence: %w %d, expected 1 or more", ErrInvalidToken, token)
	}
	header.Set(Header, strconv.FormatInt(token, 10))
	return nil
}

// FromHeader returns the token in the header. The error matches [ErrNoToken] if the header
// is missing. A token is one number from 1 to 9223372036854775807, in decimal digits
// without sign, space or leading zero. For anything else the error matches
// [ErrInvalidToken].
func FromHeader(header http.Header) (int64, error) {
	values := header.Values(Header)
	switch len(values) {
	case 0:
		return 0, fmt.Errorf("fence: %w: expected the header %s", ErrNoToken, Header)
	case 1:
	default:
		return 0, fmt.Errorf("fence: %w: %d headers %s, expected one", ErrInvalidToken, len(values), Header)
	}
	token, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || token < 1 || strconv.FormatInt(token, 10) != values[0] {
		return 0, fmt.Errorf("fence: %w: %s: %.40q, expected a number from 1 to 9223372036854775807",
			ErrInvalidToken, Header, values[0])
	}
	return token, nil
}
