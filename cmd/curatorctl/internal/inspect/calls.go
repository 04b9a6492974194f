// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
)

// at puts the path of a call in front of its error, unless the error names the path.
func at(path string, err error) error {
	var op *framework.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &op) && op.Path == path,
		errors.Is(err, framework.ErrInvalidPath) && strings.Contains(err.Error(), strconv.Quote(path)):
		return fmt.Errorf("inspect: %w", err)
	default:
		return fmt.Errorf("inspect: %s: %w", path, err)
	}
}

// interrupted returns the error of a wait that ctx has ended.
func interrupted(ctx context.Context) error {
	return &framework.InterruptedError{Err: ctx.Err(), Cause: context.Cause(ctx)}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
