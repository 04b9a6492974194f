// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"sync"
	"time"
	"weak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// burstPause is the time between the log line of the first event of a burst and the line that
// counts the others.
const burstPause = time.Second

// bursts keeps one cause, which may cost a client thousands of locks, from filling its log. It
// logs the first event of a burst at once, as the process may exit because of it.
type bursts struct {
	mu   sync.Mutex
	more map[any]int // those after the first, by a weak pointer to what they have in common: fake time may end before the pause
}

// log calls first, unless an event of that key has come within the pause before. After the pause it
// calls rest with the number of events whose first was not called.
func (b *bursts) log(key any, first func(), rest func(more int)) {
	b.mu.Lock()
	_, told := b.more[key]
	if told {
		b.more[key]++
	} else {
		b.more[key] = 0
	}
	b.mu.Unlock()
	if told {
		return
	}
	first()
	time.AfterFunc(burstPause, func() {
		b.mu.Lock()
		more := b.more[key]
		delete(b.more, key)
		b.mu.Unlock()
		if more > 0 {
			rest(more)
		}
	})
}

var lost, dropped = bursts{more: make(map[any]int)}, bursts{more: make(map[any]int)}

// ReportLoss logs the loss of a hold. Losses of one session soon after it are one line.
func ReportLoss(client *framework.Framework, session *framework.Session, path string, token int64, cause error) {
	log, why := client.Logger(), reason(cause)
	lost.log(weak.Make(session), func() {
		log.Error("lock lost while held",
			string(instruments.Path), path, string(keyFence), token, string(keySession), session.String(), string(keyReason), why)
	}, func(more int) {
		log.Error("more locks lost while held", "count", more, string(keySession), session.String(), string(keyReason), why)
	})
}

// ReportDrop logs that a lease was dropped. Drops of one client soon after it are one line.
func ReportDrop(client *framework.Framework, path string) {
	dropped.log(weak.Make(client), func() {
		client.Logger().Error("a lease was dropped before its release: its lock stays held", string(instruments.Path), path)
	}, func(more int) {
		client.Logger().Error("more leases were dropped before their release", "count", more)
	})
}
