package locks

import (
	"context"
	"sync"
)

// signal ends once. The context that ends with it is made when it is first asked for:
// most holds are released before anything waits for their signals. The zero value has
// not ended. It is safe for concurrent use.
type signal struct {
	mu     sync.Mutex
	over   bool
	ctx    context.Context //nolint:containedctx // it is the signal
	cancel context.CancelFunc
}

// context returns a context that ends with the signal.
func (s *signal) context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		s.ctx, s.cancel = context.WithCancel(context.Background())
		if s.over {
			s.cancel()
		}
	}
	return s.ctx
}

// end ends the signal, and with it its context.
func (s *signal) end() {
	s.mu.Lock()
	s.over = true
	cancel := s.cancel
	s.mu.Unlock()
	if cancel != nil { // the functions that wait for the context take locks of their own
		cancel()
	}
}

func (s *signal) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}
