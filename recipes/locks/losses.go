package locks

import (
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
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

// report logs the loss of a hold, or counts it if it is not the first of its session.
func (l *lossLog) report(h *hold, reason string) {
	l.mu.Lock()
	_, told := l.more[h.session]
	if told {
		l.more[h.session]++
	} else {
		l.more[h.session] = 0
	}
	l.mu.Unlock()
	if told { // count logs it
		return
	}
	h.l.client.Logger().Error("lock lost while held",
		string(keyPath), h.node.Path, string(keyFence), h.node.token(),
		string(keySession), h.session.String(), string(keyReason), reason)
	time.AfterFunc(lossPause, func() { l.count(h.l.client, h.session, reason) })
}

// count logs how many more locks were lost.
func (l *lossLog) count(client *framework.Framework, session *framework.Session, reason string) {
	l.mu.Lock()
	more := l.more[session]
	delete(l.more, session)
	l.mu.Unlock()
	if more > 0 {
		client.Logger().Error("more locks lost while held", "count", more,
			string(keySession), session.String(), string(keyReason), reason)
	}
}
