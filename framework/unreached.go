// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"
)

// remind is the time between two warnings of a client that has not reached a server yet.
const remind = 10 * time.Minute

// unreached counts the attempts to connect of a client that has not had a session yet.
type unreached struct {
	mu     sync.Mutex
	failed int
	unfit  int       // the newest ones that have failed for the certificate, in a row
	warned time.Time // zero before the first warning
}

// note counts a failure. It reports whether to warn, and whether all servers have certificates
// that do not fit.
func (u *unreached) note(reason error, servers int) (warn, unfit bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failed++
	u.unfit++
	if certificate := new(tls.CertificateVerificationError); !errors.As(reason, &certificate) {
		u.unfit = 0
	}
	if u.failed < servers || !u.warned.IsZero() && time.Since(u.warned) < remind {
		return false, u.unfit >= servers
	}
	u.warned = time.Now()
	return true, u.unfit >= servers
}

// attemptFailed warns of servers that cannot be reached, once each has been tried and then
// rarely. A later outage is told by the connection state.
func (e *events) attemptFailed(reason error) {
	if e.tracker.everHadSession() {
		return
	}
	servers := e.ensemble.current()
	warn, unfit := e.unreached.note(reason, len(servers))
	if unfit && e.connecting.Load() {
		e.giveUp(fmt.Errorf("%w: %w", ErrNotConnected, reason)) // Connect does not wait for other certificates
		return
	}
	if warn {
		e.cfg.log.Warn("no server can be reached", "servers", servers, "error", reason)
	}
}
