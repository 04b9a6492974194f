package cache

import (
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
)

// Errors of this package.
var (
	// ErrClosed reports a call on a cache that is closed.
	ErrClosed = errors.New("cache closed")

	// ErrNotStarted reports a call on a cache before [CuratorCache.Start].
	ErrNotStarted = errors.New("cache not started")
)

var errNilContext = fmt.Errorf("%w: context nil, expected one such as context.Background()", framework.ErrInvalidOption)
