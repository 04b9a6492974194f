package framework

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	janitorMinPause = 20 * time.Millisecond
	janitorMaxPause = 500 * time.Millisecond
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

// task is a cleanup and what has been said about it.
type task struct {
	cleanup
	refused bool // which is in the log
}

// janitor runs cleanups in the background, one after the other, until each has
// succeeded or the client is closed. It has a goroutine only while there is
// something to do. What has failed is tried again after a pause, and what is added
// meanwhile is not kept waiting by it.
type janitor struct {
	f     *Framework
	added chan struct{} // ends the pause for what is new

	mu      sync.Mutex
	queue   []*task
	failed  []*task // to be tried again
	pending int     // cleanups that have not succeeded
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
	pause := janitorMinPause
	for {
		if j.work() {
			pause = janitorMinPause
		}
		if j.isDone() {
			return
		}
		j.rest(pause)
		pause = min(2*pause, janitorMaxPause)
	}
}

// work tries what is in the queue, and reports whether anything has succeeded.
func (j *janitor) work() (succeeded bool) {
	for t := j.next(); t != nil; t = j.next() {
		err := j.f.awaitConnection(j.f.ctx, 0, nil)
		if err == nil {
			err = t.cleanup(j.f.ctx)
		}
		switch {
		case j.f.ctx.Err() != nil:
			return succeeded
		case mayPass(err):
			j.again(t, err)
		case err != nil && !errors.Is(err, ErrNoNode):
			j.settled()
			j.f.cfg.log.Error("cleanup failed and is given up", "error", err)
		default:
			j.settled()
			succeeded = true
		}
	}
	return succeeded
}

// next takes the first task that has not failed, or returns nil.
func (j *janitor) next() *task {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queue) == 0 || j.closed {
		return nil
	}
	t := j.queue[0]
	j.queue = j.queue[1:]
	return t
}

// isDone ends the run when nothing is left.
func (j *janitor) isDone() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queue)+len(j.failed) > 0 && !j.closed && j.f.ctx.Err() == nil {
		return false
	}
	j.running = false
	return true
}

func (j *janitor) settled() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending--
}

// again keeps a task that has failed. Its lack of rights is said once: it takes somebody
// to give them.
func (j *janitor) again(t *task, err error) {
	if errors.Is(err, ErrNoAuth) && !t.refused {
		t.refused = true
		j.f.cfg.log.Error("cleanup refused, and repeated until it is allowed or the client is closed", "error", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = append(j.failed, t)
}

// rest does nothing but what is new, and then has all that have failed tried again.
func (j *janitor) rest(d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	for resting := true; resting; {
		select {
		case <-j.added:
			j.work()
		case <-timer.C:
			resting = false
		case <-j.f.ctx.Done():
			resting = false
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue, j.failed = append(j.queue, j.failed...), nil
}
