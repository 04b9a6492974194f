// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/chance"
	"github.com/gocurator/curator/retry"
)

// Between failed attempts there are pauses, each twice the one before.
const (
	minPause = 100 * time.Millisecond
	maxPause = 30 * time.Second
)

// Pause is how long to wait before the next attempt. The zero value is ready
// for use.
type Pause time.Duration

// Next returns the pause to make now. The next pause is twice as long.
func (p *Pause) Next() time.Duration {
	d := min(max(time.Duration(*p), minPause), maxPause)
	*p = Pause(2 * d)
	return d
}

// Reset makes the next pause the shortest one.
func (p *Pause) Reset() { *p = 0 }

// Wait waits before the attempt after one that has failed with err: for the next pause or, in an
// outage, for its end. At a server without a quorum the pause ends when the client leaves that server. So what must come back
// after an outage does not come a long pause later. The wait ends with ctx and with the client.
func (p *Pause) Wait(ctx context.Context, client *framework.Framework, err error) {
	p.wait(ctx, client, maxPause, err)
}

// wait is Wait with a bound for the pause.
func (p *Pause) wait(ctx context.Context, client *framework.Framework, longest time.Duration, failed error) {
	isOutage := errors.Is(failed, framework.ErrNotConnected) && !client.State().IsConnected()
	if isOutage {
		p.Reset()
	}
	resting := ctx
	if errors.Is(failed, framework.ErrNotReadOnly) && client.State() == framework.ReadOnly {
		var stop func()
		resting, stop = whileReadOnly(ctx, client)
		defer stop()
	}
	Rest(resting, client, min(p.Next(), longest))
	if isOutage {
		_ = client.BlockUntilConnected(ctx) // the next attempt says why there is no connection
	}
}

// whileReadOnly returns a context that ends when the client leaves its server without a quorum.
func whileReadOnly(ctx context.Context, client *framework.Framework) (while context.Context, stop func()) {
	while, end := context.WithCancel(ctx)
	look := func(s framework.ConnectionState) {
		if s != framework.ReadOnly {
			end()
		}
	}
	registration := client.OnConnectionState(look)
	look(client.State()) // which may have changed before
	return while, func() {
		registration.Remove()
		<-registration.Done()
		end()
	}
}

// Ended returns why the client has ended for good, or nil. It is closed, or servers refuse its
// credentials, and no later request of it can succeed. Every loop asks this question, and not the
// error of its request, which user code may have got from another client.
func Ended(client *framework.Framework) error {
	select {
	case <-client.Done():
		return client.Health().Err
	default:
		return nil
	}
}

// Loop is how a goroutine of a recipe tries until it succeeds. Each request has its retry policy;
// a Loop goes on after that, for as long as there is a client.
type Loop struct {
	Client *framework.Framework
	Path   string // for the log

	Warning string        // logged with the first failure and when its reason changes; "" for no log
	Failed  func(error)   // called after each failure, before the pause, and not with the end of the client; may be nil
	Longest time.Duration // bounds the pauses; 0 for 30 s

	pause    Pause
	failures int    // in a row
	logged   string // the reason of the last one
}

// Do calls work until it returns nil. A panic of user code counts as a failure. Do gives up when ctx
// or the client ends, even during a pause, and after an error that is marked as retry.Permanent.
// Then it returns the reason, as Ended does for the client. After an attempt that has lasted, the pauses begin with the shortest
// again.
func (l *Loop) Do(ctx context.Context, work func(ctx context.Context) error) error {
	l.reset()
	atOnce := func(int, time.Duration, error) (time.Duration, bool) { return 0, true }
	return retry.Do(ctx, retry.PolicyFunc(atOnce), func(ctx context.Context) error {
		began := time.Now()
		err := Guard(l.Client, func() error { return work(ctx) })
		if err == nil {
			return nil
		}
		if ended := Ended(l.Client); ended != nil {
			return backoff.Permanent(ended)
		}
		if l.Failed != nil {
			l.Failed(err)
		}
		if time.Since(began) > maxPause {
			l.reset()
		}
		l.failures++
		l.log(ctx, err)
		if isPermanent, _ := retry.Permanent(err); isPermanent {
			return err
		}
		l.pause.wait(ctx, l.Client, cmp.Or(l.Longest, maxPause), err)
		if ended := Ended(l.Client); ended != nil {
			return backoff.Permanent(ended)
		}
		return err
	})
}

func (l *Loop) reset() { l.pause, l.failures, l.logged = 0, 0, "" }

// log logs a failure, unless the one before it had the same reason.
func (l *Loop) log(ctx context.Context, err error) {
	if reason := fmt.Sprint(err); l.Warning != "" && ctx.Err() == nil && reason != l.logged {
		l.logged = reason
		//nolint:sloglint // each loop has its constant
		l.Client.Logger().Warn(l.Warning, "curator.path", l.Path, "failures", max(l.failures, 1), "error", err)
	}
}

// Follow calls fn with each state of the znode at Path, until ctx or the client ends. Where
// [framework.Framework.Follow] gives up, as for a missing permission, it begins again.
func (l *Loop) Follow(ctx context.Context, fn func(framework.Node), opts ...framework.ReadOption) error {
	return l.Do(ctx, func(ctx context.Context) (last error) {
		for node, err := range l.Client.Follow(ctx, l.Path, opts...) {
			if last = err; err != nil {
				l.log(ctx, err)
				continue
			}
			l.reset()
			fn(node)
		}
		return last
	})
}

// Rest waits for d, or until ctx or the client ends.
func Rest(ctx context.Context, client *framework.Framework, d time.Duration) {
	select {
	case <-time.After(d):
	case <-client.Done():
	case <-ctx.Done():
	}
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Part waits for a random part of d, so that callers that have collided do not meet again. It
// fails when ctx ends.
func Part(ctx context.Context, d time.Duration) error {
	Sleep(ctx, chance.Of(ctx).Below("part", d))
	if ctx.Err() != nil {
		return Interrupted(ctx)
	}
	return nil
}

// Interrupted returns the error of a wait that ctx has ended. It matches the context's error
// and its cause.
func Interrupted(ctx context.Context) error {
	return &framework.InterruptedError{Err: ctx.Err(), Cause: context.Cause(ctx)}
}

// InterruptedAfter is [Interrupted] with the error that has kept the wait from its end, if
// there is one.
func InterruptedAfter(ctx context.Context, last error) error {
	if last == nil {
		return Interrupted(ctx)
	}
	return fmt.Errorf("%w; last error: %w", Interrupted(ctx), last)
}
