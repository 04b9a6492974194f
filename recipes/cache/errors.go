// SPDX-License-Identifier: Apache-2.0

package cache

import "errors"

// Errors of this package.
var (
	// ErrClosed reports a call on a cache that is closed.
	ErrClosed = errors.New("cache closed")

	// ErrNotStarted reports a call on a cache before [CuratorCache.Start].
	ErrNotStarted = errors.New("cache not started")
)
