// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package zkproxy_test

import (
	"errors"
	"net"
)

// isReset cannot ask for more than a failure of the network where the codes have other names.
func isReset(err error) bool {
	var failure *net.OpError
	return errors.As(err, &failure) && !failure.Timeout()
}
