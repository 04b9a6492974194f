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

// janitor runs cleanups in the background, one after the other, until each has
// succeeded or the client is closed. It has a goroutine only while there is
// something to do.
type janitor struct {
	f *Framework

	mu      sync.Mutex
	queue   []cleanup
	pending int // cleanups that have not succeeded
	running bool
	closed  bool
	done    sync.WaitGroup
}

func newJanitor(f *Framework) *janitor { return &janitor{f: f} }

// add accepts a cleanup, or returns false when the client is closed.
func (j *janitor) add(task cleanup) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return false
	}
	j.queue = append(j.queue, task)
	j.pending++
	if !j.running {
		j.running = true
		j.done.Go(j.run)
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
		task := j.next()
		if task == nil {
			return
		}
		err := j.f.awaitConnection(j.f.ctx, 0, nil)
		if err == nil {
			err = task(j.f.ctx)
		}
		switch {
		case j.f.ctx.Err() != nil:
			return
		case mayPass(err):
			j.again(task)
			j.sleep(pause)
			pause = min(2*pause, janitorMaxPause)
		case err != nil && !errors.Is(err, ErrNoNode):
			j.settled()
			j.f.cfg.log.Error("cleanup failed and is given up", "error", err)
		default:
			j.settled()
			pause = janitorMinPause
		}
	}
}

// next takes the first task, or ends the run when there is none.
func (j *janitor) next() cleanup {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.queue) == 0 || j.closed {
		j.running = false
		return nil
	}
	task := j.queue[0]
	j.queue = j.queue[1:]
	return task
}

func (j *janitor) settled() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending--
}

func (j *janitor) again(task cleanup) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.queue = append(j.queue, task)
}

func (j *janitor) sleep(d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-j.f.ctx.Done():
	}
}
