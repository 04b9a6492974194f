// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"bytes"
	"context"
	"errors"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks/internal/identity"
)

// A program that is started again may begin with the session of the process before it, see [framework.WithID]. That
// process is gone, so its contenders have no owners. An acquisition takes the place of one of them, with the token, instead of
// a place behind it.

// adopt takes over a contender of this lock with the same label. The path is empty if none was left.
func (l *lock) adopt(ctx context.Context, driver LockInternalsDriver) (LockNode, error) {
	if !isAdoptable(driver) {
		return LockNode{}, nil
	}
	path, stat, err := l.client.Adopt(ctx, l.path, l.cfg.data, func(name string, data []byte) bool {
		_, isNumbered := framework.SequenceNumber(name, l.lockName)
		return isNumbered && framework.IsProtectedName(name) && isSameOwner(data, l.cfg.data)
	})
	if errors.Is(err, framework.ErrSessionEnded) {
		err = nodeGone(err)
	}
	return LockNode{Path: path, Stat: stat}, err
}

// errNothingLeft is the error of an acquisition that only adopts.
var errNothingLeft = errors.New("the process before has left nothing")

// isAdoptable reports whether the tokens of a driver are those of its nodes, and each node has a place of its own.
func isAdoptable(driver LockInternalsDriver) bool {
	switch driver.(type) {
	case StandardLockInternalsDriver, queueDriver, writeDriver, leaseDriver:
		return true
	default: // a reader may have had the place and the token of a writer
		return false
	}
}

// isSameOwner reports whether two contenders differ in nothing but the process.
func isSameOwner(a, b []byte) bool {
	host, _, label := identity.Parse(string(a))
	other, _, same := identity.Parse(string(b))
	if host == "" || other == "" {
		return bytes.Equal(a, b)
	}
	return label == same
}
