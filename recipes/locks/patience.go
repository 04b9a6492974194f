// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
)

// releaseTimeout bounds a release whose context has no deadline.
const releaseTimeout = 10 * time.Second

// patience is a context that ends releaseTimeout after it was made, or with the loss of its session. The releases of a
// second share it, which are then bounded by up to a second less: of its own it would be a tenth of what a turn allocates.
type patience struct {
	mu      sync.Mutex
	session *framework.Session
	ctx     context.Context
}

func (p *patience) in(session *framework.Session) context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == session {
		if end, _ := p.ctx.Deadline(); time.Until(end) > releaseTimeout-time.Second {
			return p.ctx
		}
	}
	ctx, cancel := context.WithTimeout(session.LossContext(), releaseTimeout)
	context.AfterFunc(ctx, cancel)
	p.session, p.ctx = session, ctx
	return ctx
}
