// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
)

// Remove deletes the znode of an attempt, in the background if it must be. It returns nil if
// the znode is gone, is being deleted, or goes with the session of a client that has ended.
func Remove(ctx context.Context, client *framework.Framework, path string) error {
	err := client.Delete(ctx, path, framework.Guaranteed())
	switch {
	case errors.Is(err, framework.ErrNoNode), errors.Is(err, framework.ErrCleanupPending), Ended(client) != nil:
		return nil //nolint:nilerr // the znode goes with the session of a client that has ended
	default:
		return err
	}
}

// TakeBack removes the znode of an attempt that has failed, and returns the cause of the
// failure.
func TakeBack(ctx context.Context, client *framework.Framework, path string, cause error) error {
	// What has no valid path was never created.
	if err := Remove(ctx, client, path); err != nil && !errors.Is(err, framework.ErrInvalidPath) {
		return fmt.Errorf("%w (and its node stays: %w)", cause, err)
	}
	return cause
}

// AwaitAbsence waits until there is no znode at path. It reads the data, as a
// watch set by exists would stay at a server where there is none.
func AwaitAbsence(ctx context.Context, client *framework.Framework, path string) error {
	for {
		var watch *framework.Watch
		_, err := client.Get(ctx, path, framework.Watched(&watch), framework.Undecompressed())
		if errors.Is(err, framework.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = watch.Wait(ctx)
		watch.Cancel()
		if err != nil {
			return err
		}
	}
}
