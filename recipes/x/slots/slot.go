// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// Slot is a number that this process holds, from Take to Release or its loss. It is the lease of a lock: its
// context ends with it, Err and the cause say why, and Token rises from holder to holder of one number.
type Slot struct {
	*locks.Lease

	number  int
	marker  string // "" without a delay
	release sync.Once
}

// Number returns the number. No other process has it while the slot is valid.
func (s *Slot) Number() int { return s.number }

// Release gives the number back, as [locks.Lease.Release] does. If the server does not confirm that, the number
// counts as lost; see [WithDelay].
func (s *Slot) Release(ctx context.Context) error {
	if s == nil || ctx == nil {
		return (*locks.Lease)(nil).Release(ctx)
	}
	var err error
	s.release.Do(func() {
		if s.marker == "" || s.Err() != nil {
			return
		}
		bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer stop()
		_, err = s.Transact(bounded, framework.DeleteOp(s.marker)) // first, or a number without a holder would count as lost
	})
	return errors.Join(err, s.Lease.Release(ctx))
}

// errRival reports that another process was faster.
var errRival = errors.New("another process was faster")

// releaseTime bounds the first part of a release, as locks bounds the second.
const releaseTime = 10 * time.Second

// mark notes that the number is held, in place of the marker of a holder that has lost it.
func (s *Slot) mark(ctx context.Context, before *framework.Stat) error {
	var ops []framework.Op
	if before != nil {
		ops = append(ops, framework.DeleteOp(s.marker, framework.WithVersion(before.Version)))
	}
	_, err := s.Transact(ctx, append(ops, framework.CreateOp(s.marker, nil, framework.Uncompressed()))...)
	if errors.Is(err, framework.ErrNodeExists) || errors.Is(err, framework.ErrBadVersion) || errors.Is(err, framework.ErrNoNode) {
		return errRival
	}
	return err
}
