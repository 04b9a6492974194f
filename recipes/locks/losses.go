// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
)

// lossPause is the time between the log line of a lost lock and the line that counts the
// locks that were lost with it.
const lossPause = time.Second

// keptLosses is how many losses a process remembers.
const keptLosses = 100

// Loss is a hold that this process has lost.
type Loss struct {
	At      time.Time
	Servers string // the client's, as its String method names them
	Path    string // of the contender's node
	Token   int64
	Session int64
	Reason  string // as in the log and in the metric curator.lock.lost
}

// RecentLosses returns the newest of the holds that this process has lost, newest first and
// at most 100, for a page or a bundle of diagnostics. A loss is listed soon after the lease
// has ended. One that only [Lease.Release] has noticed is not listed: Release returned it.
// RecentLosses returns at once and asks no server.
func RecentLosses() []Loss {
	losses.mu.Lock()
	defer losses.mu.Unlock()
	recent := slices.Clone(losses.recent)
	slices.Reverse(recent)
	return recent
}

// losses keeps one interruption, which may cost a client thousands of locks, from filling
// its log. It logs the first loss at once, as the process may exit because of it.
var losses = lossLog{more: make(map[*framework.Session]int)}

type lossLog struct {
	mu     sync.Mutex
	more   map[*framework.Session]int // losses after the first, until they are logged
	recent []Loss                     // oldest first
}

// report keeps the loss of a hold. It logs it, or counts it if it is not the first of its
// session.
func (l *lossLog) report(client *framework.Framework, session *framework.Session, path string, token int64, reason string) {
	log, loss := client.Logger(), Loss{time.Now(), client.String(), path, token, session.ID(), reason}
	l.mu.Lock()
	if len(l.recent) == keptLosses {
		l.recent = slices.Delete(l.recent, 0, 1)
	}
	l.recent = append(l.recent, loss)
	_, told := l.more[session]
	if told {
		l.more[session]++
	} else {
		l.more[session] = 0
	}
	l.mu.Unlock()
	if told { // count logs it
		return
	}
	log.Error("lock lost while held",
		string(keyPath), path, string(keyFence), token, string(keySession), session.String(), string(keyReason), reason)
	time.AfterFunc(lossPause, func() { l.count(log, session, reason) })
}

// count logs how many more locks were lost.
func (l *lossLog) count(log *slog.Logger, session *framework.Session, reason string) {
	l.mu.Lock()
	more := l.more[session]
	delete(l.more, session)
	l.mu.Unlock()
	if more > 0 {
		log.Error("more locks lost while held", "count", more,
			string(keySession), session.String(), string(keyReason), reason)
	}
}
