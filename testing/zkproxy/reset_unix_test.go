// SPDX-License-Identifier: Apache-2.0

//go:build unix

package zkproxy_test

import (
	"errors"
	"syscall"
)

func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
