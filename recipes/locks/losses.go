package locks

import (
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
)

// lossPause is between the line of a lost lock and the line that counts the others which
// were lost with it.
const lossPause = time.Second

// losses keeps one interruption, which may cost a client thousands of locks, from filling
// its log. A process may exit on a loss: so the first is logged at once.
var losses = lossLog{more: make(map[*framework.Session]int)}

type lossLog struct {
	mu   sync.Mutex
	more map[*framework.Session]int // lost since the line of the first
}

// report logs the loss of a hold, now or as one of several.
func (l *lossLog) report(h *hold, reason string) {
	l.mu.Lock()
	_, told := l.more[h.session]
	if told {
		l.more[h.session]++
	} else {
		l.more[h.session] = 0
	}
	l.mu.Unlock()
	if told {
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
