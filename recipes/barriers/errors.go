package barriers

import (
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
)

var (
	// ErrEntered says that a member which has entered is to enter again.
	ErrEntered = errors.New("entered already, leave first")

	// ErrNotEntered says that a member which has not entered is to leave.
	ErrNotEntered = errors.New("not entered")
)

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
