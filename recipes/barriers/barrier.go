// SPDX-License-Identifier: Apache-2.0

package barriers

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// DistributedBarrier keeps all processes that wait at it until it is removed.
// It shares its znode with Curator's class of that name.
//
// Layout: the barrier is set while there is a persistent znode at path, below
// container nodes.
//
// It is safe for concurrent use.
type DistributedBarrier struct {
	client    *framework.Framework
	path      string
	telemetry telemetry
}

// NewDistributedBarrier returns the barrier at path. It checks its arguments
// and sends nothing.
func NewDistributedBarrier(client *framework.Framework, path string) (*DistributedBarrier, error) {
	if err := validate(client, path); err != nil {
		return nil, err
	}
	measured, err := newTelemetry(client, "barrier", path)
	if err != nil {
		return nil, fmt.Errorf("barriers: %s: %w", path, err)
	}
	return &DistributedBarrier{client, path, measured}, nil
}

// Path returns the path of the barrier.
func (b *DistributedBarrier) Path() string { return b.path }

// SetBarrier sets the barrier. It returns nil if the barrier is set already, by any
// client. After a lost reply it tries again. If [framework.OutcomeUnknown] is true for
// its error, the barrier may be set; the call can be repeated.
func (b *DistributedBarrier) SetBarrier(ctx context.Context) error {
	_, err := b.client.Create(ctx, b.path, nil, framework.CreatingParentContainersIfNeeded(), framework.Idempotent())
	// It may also have been set by Java, which writes data to the znode.
	if err != nil && !errors.Is(err, framework.ErrNodeExists) {
		return fmt.Errorf("barriers: set: %w", err)
	}
	return nil
}

// RemoveBarrier removes the barrier, and so lets all processes go on that wait at it.
// It returns nil if the barrier is not set. After a lost reply it tries again, and may
// remove a barrier that was set since. If [framework.OutcomeUnknown] is true for its
// error, the barrier may be removed; the call can be repeated.
func (b *DistributedBarrier) RemoveBarrier(ctx context.Context) error {
	return attempt.Wrapf(b.client.Delete(ctx, b.path, framework.Idempotent()), "barriers: remove")
}

// WaitOnBarrier blocks until the barrier is not set, or ctx ends. It survives
// the loss of the connection and of the session. It fails when requests fail
// for longer than the retry policy allows.
func (b *DistributedBarrier) WaitOnBarrier(ctx context.Context) error {
	err := b.telemetry.measure(ctx, func() error { return attempt.AwaitAbsence(ctx, b.client, b.path) })
	return attempt.Wrapf(err, "barriers: wait")
}
