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
	"github.com/gocurator/curator/internal/usercode"
)

var errNilContext = fmt.Errorf("%w: context nil, expected one such as context.Background()", framework.ErrInvalidOption)

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
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Guard calls fn on a goroutine of its own, and returns its error. A panic of user code that fn calls, such as a
// retry policy, is logged and returned: it must not end a process that shows locks to an operator.
func Guard(client *framework.Framework, fn func() error) error {
	ended := make(chan error, 1)
	go func() {
		var err error
		usercode.Call(func() { err = fn() }, func(p *usercode.PanicError) {
			if p != nil {
				client.Logger().Error("user code panicked", "panic", p.Value, "stack", p.Stack)
				err = p
			}
			ended <- err
		})
	}()
	return <-ended
}

// plain returns the data of a znode as the client reads all data, or as it is if it cannot be decompressed: any
// program can write it, and it must not hide other znodes.
func plain(client *framework.Framework, path string, stored []byte) []byte {
	if !client.CompressionEnabled() {
		return stored
	}
	if data, err := client.Decompress(path, stored); err == nil {
		return data
	}
	return stored
}
