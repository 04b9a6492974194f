package framework

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	janitorMinPause = 20 * time.Millisecond
	janitorMaxPause = 500 * time.Millisecond

	// What is refused for lack of rights may be so for as long as the client lives,
	// and be refused to many clients.
	janitorMaxRefusedPause = 30 * time.Second
)

// cleanup is one deletion that must not be forgotten. It is repeated while it
// fails with an error that later may not be.
type cleanup func(ctx context.Context) error

// mayPass reports whether what failed with this error may succeed later. Rights that
// were taken away count: they may be given back, and until then nobody but this
// client knows that the znode has to go.
func mayPass(err error) bool {
	return Retryable(err) || errors.Is(err, ErrNotReadOnly) || errors.Is(err, ErrNoAuth)
}

// task is a cleanup and what has become of it.
type task struct {
	cleanup
	refused bool          // which is in the log
	pause   time.Duration // after the last try
	due     time.Time     // when to try, zero: at once
}

// janitor runs cleanups in the background, one after the other, until each has
// succeeded or the client is closed. It has a goroutine only while there is
// something to do. What has failed is tried again after a pause, each after its own.
type janitor struct {
	f     *Framework
	added chan struct{} // ends the rest for what is new

	mu      sync.Mutex
	queue   []*task
	pending int // cleanups that have not succeeded
	running bool
	closed  bool
	done    sync.WaitGroup
}

func newJanitor(f *Framework) *janitor { return &janitor{f: f, added: make(chan struct{}, 1)} }

// add accepts a cleanup, or returns false when the client is closed.
func (j *janitor) add(c cleanup) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return false
	}
	j.queue = append(j.queue, &task{cleanup: c})
	j.pending++
	if !j.running {
		j.running = true
		j.done.Go(j.run)
	}
	select {
	case j.added <- struct{}{}:
	default:
	}
	return true
}

// wait drops what is left after the client's context has ended.
func (j *janitor) wait() {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.done.Wait()
}

func (j *janitor) run() {
	for {
		j.work()
		rest, more := j.left()
		if !more {
			return
		}
		j.rest(rest)
	}
}

// work tries what is due.
func (j *janitor) work() {
	for t := j.next(); t != nil; t = j.next() {
		err := j.f.awaitConnection(j.f.ctx, 0, nil)
		if err == nil {
			err = t.cleanup(j.f.ctx)
		}
		switch {
		case j.f.ctx.Err() != nil:
			return
		case mayPass(err):
			j.again(t, err)
		case err != nil && !errors.Is(err, ErrNoNode):
			j.settled()
			j.f.cfg.log.Error("cleanup failed and is given up", "error", err)
		default:
			j.settled()
		}
	}
}

// next takes the first task that is due, or returns nil.
func (j *janitor) next() *task {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	i := slices.IndexFunc(j.queue, func(t *task) bool { return !t.due.After(now) })
	if i < 0 || j.closed {
		return nil
	}
	t := j.queue[i]
	j.queue = slices.Delete(j.queue, i, i+1)
	return t
}

// left tells how long it is until the next task is due. It ends the
// run when nothing is left.
func (j *janitor) left() (rest time.Duration, more bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queue) == 0 || j.closed || j.f.ctx.Err() != nil {
		j.running = false
		return 0, false
	}
	first := slices.MinFunc(j.queue, func(a, b *task) int { return a.due.Compare(b.due) })
	return time.Until(first.due), true
}

func (j *janitor) settled() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending--
}

// again puts a task that has failed off, each time for twice as long. Its lack of
// rights is said once: it takes somebody to give them.
func (j *janitor) again(t *task, err error) {
	longest := janitorMaxPause
	if errors.Is(err, ErrNoAuth) {
		longest = janitorMaxRefusedPause
		if !t.refused {
			t.refused = true
			j.f.cfg.log.Error("cleanup refused, and repeated until it is allowed or the client is closed", "error", err)
		}
	}
	t.pause = min(max(2*t.pause, janitorMinPause), longest)
	t.due = time.Now().Add(t.pause/2 + rand.N(t.pause))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = append(j.queue, t)
}

// rest does nothing for a while, or until there is something new.
func (j *janitor) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-j.added:
	case <-timer.C:
	case <-j.f.ctx.Done():
	}
}
