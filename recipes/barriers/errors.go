// SPDX-License-Identifier: Apache-2.0

package barriers

import (
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

var (
	// ErrEntered reports an Enter of a member that has entered already.
	ErrEntered = errors.New("entered already, leave first")

	// ErrNotEntered reports a Leave of a member that has not entered.
	ErrNotEntered = errors.New("not entered")
)

// validate checks what all constructors are given.
func validate(client *framework.Framework, path string) error {
	if err := attempt.Check(client, path); err != nil {
		return fmt.Errorf("barriers: %w", err)
	}
	if client.FullPath(path) == "/" { // where ZooKeeper's own znode would count as a member
		return errors.New("barriers: path /, expected the path of a znode that can be created and deleted")
	}
	return nil
}
