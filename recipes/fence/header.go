package fence

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Header is the name of the HTTP header with a token, in decimal digits.
const Header = "Fence-Token"

// ErrNoToken says that a request has no token.
var ErrNoToken = errors.New("no fencing token")

// Lease is what a token comes from, such as a lease of package locks.
type Lease interface {
	// Token is greater than that of every holder before.
	Token() int64

	// Err returns nil while the lease is valid.
	Err() error
}

// SetHeader sets the token of the lease in the header. It returns the lease's error, and
// sets nothing, if the lease has ended.
func SetHeader(header http.Header, lease Lease) error {
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

// FromHeader returns the token in the header. The error matches [ErrNoToken] if there
// is none, and [ErrInvalidToken] for anything but one number from 1 to
// 9223372036854775807, in decimal digits without sign, space or leading zero.
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
