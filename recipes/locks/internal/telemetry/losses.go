// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// lossPause is the time between the log line of a lost lock and the line that counts the
// locks that were lost with it.
const lossPause = time.Second

// keptLosses is how many losses a process remembers.
const keptLosses = 100

// Loss is a hold that this process has lost, as package locks reports it.
type Loss struct {
	At      time.Time
	Servers string
	Path    string
	Token   int64
	Session int64
	Reason  string
}

// losses keeps one interruption, which may cost a client thousands of locks, from filling
// its log. It logs the first loss at once, as the process may exit because of it.
var losses = lossLog{more: make(map[*framework.Session]int)}

type lossLog struct {
	mu     sync.Mutex
	more   map[*framework.Session]int // losses after the first, until they are logged
	recent []Loss                     // oldest first
}

// RecentLosses returns the newest losses, newest first.
func RecentLosses() []Loss {
	losses.mu.Lock()
	defer losses.mu.Unlock()
	recent := slices.Clone(losses.recent)
	slices.Reverse(recent)
	return recent
}

// ReportLoss keeps the loss of a hold. It logs it, or counts it if it is not the first of its
// session.
func ReportLoss(client *framework.Framework, session *framework.Session, path string, token int64, cause error) {
	l, log, why := &losses, client.Logger(), reason(cause)
	loss := Loss{time.Now(), client.String(), path, token, session.ID(), why}
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
		string(instruments.Path), path, string(keyFence), token, string(keySession), session.String(), string(keyReason), why)
	time.AfterFunc(lossPause, func() { l.count(log, session, why) })
}

// count logs how many more locks were lost.
func (l *lossLog) count(log *slog.Logger, session *framework.Session, why string) {
	l.mu.Lock()
	more := l.more[session]
	delete(l.more, session)
	l.mu.Unlock()
	if more > 0 {
		log.Error("more locks lost while held", "count", more,
			string(keySession), session.String(), string(keyReason), why)
	}
}
