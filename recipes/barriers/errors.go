package barriers

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
)

var (
	// ErrEntered says that a member which has entered is to enter again.
	ErrEntered = errors.New("entered already, leave first")

	// ErrNotEntered says that a member which has not entered is to leave.
	ErrNotEntered = errors.New("not entered")

	errNilContext = fmt.Errorf("%w: context nil, expected one such as context.Background()", framework.ErrInvalidOption)
)

// ended is the error of a wait that its context has ended. It matches the
// context's error and, where the context was given one, its cause.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// validate checks what all constructors are given.
func validate(client *framework.Framework, path string) error {
	if client == nil {
		return errors.New("barriers: client nil, expected a started framework client")
	}
	if err := framework.ValidatePath(path); err != nil {
		return fmt.Errorf("barriers: %w", err)
	}
	return nil
}
