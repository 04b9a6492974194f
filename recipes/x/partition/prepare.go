// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"

	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/retry"
)

// preparation is the prepare of one partition, while the member is its owner or stands by.
type preparation struct {
	cancel context.CancelFunc
	ready  chan struct{} // closed when prepare has returned nil
	ended  chan struct{} // closed when prepare runs no more
}

// prepareLocked begins to prepare, if the member has a prepare and has not begun.
func (p *piece) prepareLocked() {
	if p.of.cfg.prepare == nil || p.warm != nil {
		return
	}
	ctx, cancel := context.WithCancel(p.of.ctx)
	warm := &preparation{cancel: cancel, ready: make(chan struct{}), ended: make(chan struct{})}
	p.warm = warm
	go func() {
		defer close(warm.ended)
		loop := attempt.Loop{Client: p.of.client, Path: p.of.lock(p.name), Warning: "a partition could not be prepared, trying again"}
		prepare := func(context.Context) error {
			err := p.of.cfg.prepare(ctx, p.name)
			if isPermanent, _ := retry.Permanent(err); isPermanent {
				err = errors.New(err.Error()) // which would end the loop: no failure of prepare does
			}
			return err
		}
		if loop.Do(ctx, prepare) == nil {
			close(warm.ready)
			attempt.Signal(p.of.prepared)
		}
	}()
}

// end ends the context of prepare, and waits until prepare has returned.
func (w *preparation) end() {
	w.cancel()
	<-w.ended
}

// await waits until prepare has returned nil. There may be none.
func (w *preparation) await(ctx context.Context) error {
	if w == nil {
		return nil
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *preparation) isReady() bool {
	return w != nil && attempt.IsClosed(w.ready)
}

// standByLocked sets whether this member stands by.
func (p *piece) standByLocked(on bool) {
	if p.standby == on {
		return
	}
	p.standby = on
	attempt.Signal(p.wake)
	if p.warm.isReady() { // it was the owner
		attempt.Signal(p.of.prepared)
	}
}
