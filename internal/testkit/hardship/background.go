// SPDX-License-Identifier: Apache-2.0

package hardship

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
)

// Background is a stage on which something runs until it is stopped, such as a member of a group. The end of the
// stage stops all of it, and requires that no ephemeral znode is left.
type Background struct {
	*Stage

	mu    sync.Mutex
	paths int
	all   []*Running
}

// Running is what runs.
type Running struct {
	cancel context.CancelFunc
	ready  chan struct{} // closed when it has what it wants
	ended  chan struct{}
	err    error
}

// InBackground creates the znode at the path of a stage on which something will run.
func InBackground(s *Stage) *Background {
	b := &Background{Stage: s}
	_, err := s.Theirs.Create(context.Background(), s.Path, nil)
	require.NoError(s.T, err)
	s.End = func(error) {
		b.mu.Lock()
		all := b.all
		b.all = nil
		b.mu.Unlock()
		for _, r := range all {
			r.cancel()
		}
		for _, r := range all {
			<-r.ended
		}
		s.awaitNoEphemerals()
	}
	s.Rival = func() { s.End(nil) }
	return b
}

// awaitNoEphemerals waits until the session of a closed client has ended.
func (s *Stage) awaitNoEphemerals() {
	for deadline := time.Now().Add(2 * time.Minute); ; sleep(5 * time.Millisecond) {
		left := s.Ephemerals()
		if len(left) == 0 {
			return
		}
		require.True(s.T, time.Now().Before(deadline), "%s: %q are left", s.Name, left)
	}
}

// NextPath returns a path that nothing else uses.
func (b *Background) NextPath() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paths++
	return fmt.Sprintf("%s/%d", b.Path, b.paths)
}

// Start runs a function until it is stopped. The function calls ready when it has what it wants.
func (b *Background) Start(run func(ctx context.Context, ready func()) error) *Running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Running{cancel: cancel, ready: make(chan struct{}), ended: make(chan struct{})}
	b.mu.Lock()
	b.all = append(b.all, r)
	b.mu.Unlock()
	go func() {
		defer close(r.ended)
		r.err = run(ctx, sync.OnceFunc(func() { close(r.ready) }))
	}()
	return r
}

// Until waits until it has what it wants.
func (r *Running) Until(ctx context.Context) error {
	select {
	case <-r.ready:
		return nil
	case <-r.ended:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx))
	}
}

// stop ends it, and returns an error that is not the end of its context.
func (r *Running) stop() error {
	r.cancel()
	<-r.ended
	if errors.Is(r.err, context.Canceled) && !strings.Contains(r.err.Error(), "leave: ") {
		return nil
	}
	return r.err
}

// Begins prepares a call that starts something, and waits until it has what it wants.
func Begins(start func(b *Background) *Running) func(*Stage) func(context.Context) error {
	return func(s *Stage) func(context.Context) error {
		b := InBackground(s)
		return func(ctx context.Context) error {
			r := start(b)
			err := r.Until(ctx)
			if err != nil || s.Crowd {
				r.cancel()
			}
			return err
		}
	}
}

// Ends prepares a call that ends something, which has had what it wants for some time.
func Ends(start func(b *Background) *Running, after time.Duration) func(*Stage) func(context.Context) error {
	return func(s *Stage) func(context.Context) error {
		r := start(InBackground(s))
		require.NoError(s.T, r.Until(context.Background()), s.Name)
		sleep(after)
		return WithoutContext(r.stop)
	}
}

// WithoutContext is a call that takes no context: a caller that has one gives up waiting.
func WithoutContext(call func() error) func(context.Context) error {
	return func(ctx context.Context) error {
		result := make(chan error, 1)
		go func() { result <- call() }()
		select {
		case err := <-result:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx))
		}
	}
}
