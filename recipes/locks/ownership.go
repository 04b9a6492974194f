package locks

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
)

// ownerKey finds the hold of one lock in a context. Views of one client that name the same
// node name the same lock. The two sides of a read/write lock share a folder, so the key
// has the base path.
type ownerKey struct {
	client   *framework.Framework // without namespace
	basePath string               // at the server
}

// owned returns the hold of this lock that ctx carries, or nil.
func (l *LockInternals) owned(ctx context.Context) *hold {
	if ctx == nil {
		return nil // the acquisition returns the error
	}
	h, _ := ctx.Value(l.owner).(*hold)
	return h
}

// refuseReentry returns an error if re-entry is off and ctx holds the lock.
func (l *LockInternals) refuseReentry(ctx context.Context) error {
	h := l.owned(ctx)
	holds := h != nil && h.err() == nil // a hold that has ended is refused later, with its cause
	if !l.cfg.noReentry || !holds {
		return nil
	}
	return fmt.Errorf("%w: the context holds this lock already, which was made WithoutReentry: "+
		"acquire with a context that carries no lease of it", ErrReentered)
}
