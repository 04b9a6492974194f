// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"log/slog"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// lossPause is the time between the log line of a lost lock and the line that counts the
// locks that were lost with it.
const lossPause = time.Second

// losses keeps one interruption, which may cost a client thousands of locks, from filling
// its log. It logs the first loss at once, as the process may exit because of it.
var losses = lossLog{more: make(map[*framework.Session]int)}

type lossLog struct {
	mu   sync.Mutex
	more map[*framework.Session]int // losses after the first, until they are logged
}

// ReportLoss logs the loss of a hold, or counts it if it is not the first of its session.
func ReportLoss(client *framework.Framework, session *framework.Session, path string, token int64, cause error) {
	l, log, why := &losses, client.Logger(), reason(cause)
	l.mu.Lock()
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
