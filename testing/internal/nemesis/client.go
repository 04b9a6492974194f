// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

const (
	connectPatience = 30 * time.Second // for the first connection, to an ensemble that may be under fire
	measureEvery    = 5 * time.Second
	lookAtCleanups  = 20 * time.Millisecond
)

// client is one client process: a Framework, and a worker or more for each lock.
type client struct {
	cfg       clientConfig
	framework *framework.Framework
	way       *way
	history   *history
	hurried   atomic.Bool // acquisitions get little time

	stopping chan struct{} // closed when workers are to make their last turn
	workers  sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc

	mu     sync.Mutex
	stuck  []string
	shared map[string]*locks.InterProcessMutex // those that the workers of a lock share
}

// runClient is the main function of a client process. It ends when it is told to, or with
// its standard input, which its parent keeps open.
func runClient(in io.Reader, out io.Writer) error {
	orders := bufio.NewReader(in)
	line, err := orders.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("nemesis: client: configuration: %w", err)
	}
	var cfg clientConfig
	if err := json.Unmarshal(line, &cfg); err != nil {
		return fmt.Errorf("nemesis: client: configuration: %w", err)
	}
	before := goleak.IgnoreCurrent()
	c, err := newClient(cfg)
	if err != nil {
		return fmt.Errorf("nemesis: client %s: %w", cfg.Name, err)
	}
	c.start()
	for {
		line, err := orders.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("nemesis: client %s: it was abandoned: %w", cfg.Name, err)
		}
		var o order
		if err := json.Unmarshal(line, &o); err != nil {
			return fmt.Errorf("nemesis: client %s: order: %w", cfg.Name, err)
		}
		answer := reply{}
		if o.Do == doClose {
			err = c.close(before)
		} else {
			answer, err = c.obey(o)
		}
		if err != nil {
			answer.Error = err.Error()
		}
		if err := json.NewEncoder(out).Encode(answer); err != nil {
			return fmt.Errorf("nemesis: client %s: %w", cfg.Name, err)
		}
		if o.Do == doClose {
			return nil
		}
	}
}

func newClient(cfg clientConfig) (c *client, err error) {
	c = &client{cfg: cfg, stopping: make(chan struct{}), shared: map[string]*locks.InterProcessMutex{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if c.history, err = createHistory(cfg.History, cfg.Name); err != nil {
		return nil, err
	}
	if c.way, err = newWay(cfg, c.history); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, connectPatience)
	defer cancel()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	options := append(c.way.options(cfg), framework.WithLogger(log.With("client", cfg.Name)))
	if c.framework, err = framework.Connect(ctx, c.way.connectString(), options...); err != nil {
		return nil, err
	}
	c.history.add(event{Kind: connected, Session: c.framework.Session().ID()})
	c.framework.OnConnectionState(c.onState)
	return c, nil
}

// onState records that a session may have ended, and which there is afterwards.
func (c *client) onState(state framework.ConnectionState) {
	session := c.framework.Session()
	switch {
	case state == framework.Lost:
		c.history.add(event{Kind: expired})
	case state == framework.Reconnected && session != nil:
		c.history.add(event{Kind: connected, Session: session.ID()})
	}
}

// start starts the workers, and measures from time to time.
func (c *client) start() {
	for i, spec := range c.cfg.Locks {
		kind := workloadOf(spec)
		for n := range kind.workers {
			w := &worker{
				client: c, spec: spec, kind: kind, name: fmt.Sprintf("%s/%s.%d", c.cfg.Name, spec.Name, n),
				random: rand.New(rand.NewPCG(c.cfg.Seed, uint64(i<<8|n))),
			}
			c.workers.Go(w.run)
		}
	}
	c.workers.Go(c.measure)
}

// measure records what the process uses, and how many cleanups were pending at most since the last time.
func (c *client) measure() {
	ticker, look := time.NewTicker(measureEvery), time.NewTicker(lookAtCleanups)
	defer ticker.Stop()
	defer look.Stop()
	for {
		now, err := measure()
		now.Cleanups = c.framework.Health().PendingCleanups
		for due := false; !due; {
			select {
			case <-look.C:
				now.Cleanups = max(now.Cleanups, c.framework.Health().PendingCleanups)
			case <-ticker.C:
				due = true
			case <-c.stopping:
				c.history.add(event{Kind: measured, Figures: now, Error: text(err)})
				return
			}
		}
		c.history.add(event{Kind: measured, Figures: now, Error: text(err)})
	}
}

// obey carries an order out.
func (c *client) obey(o order) (reply, error) {
	switch o.Do {
	case doExpire:
		ctx, cancel := context.WithTimeout(c.ctx, connectPatience)
		defer cancel()
		session, err := zktest.EndSession(ctx, c.framework, c.cfg.Servers...)
		if session == nil {
			return reply{}, err
		}
		return reply{Session: session.ID()}, err
	case doFinish:
		close(c.stopping)
		c.workers.Wait()
		c.history.add(event{Kind: quiet})
		return reply{Stuck: c.stuck}, nil
	case doHurry:
		c.hurried.Store(true)
		return reply{}, nil
	case doHeal:
		c.hurried.Store(false)
		return reply{}, c.way.obey(o)
	default:
		return reply{}, c.way.obey(o)
	}
}

// sharedMutex returns the one mutex that all workers of a lock use.
func (c *client) sharedMutex(spec lockSpec, create func() (*locks.InterProcessMutex, error)) (*locks.InterProcessMutex, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared[spec.Name] == nil {
		mutex, err := create()
		if err != nil {
			return nil, err
		}
		c.shared[spec.Name] = mutex
	}
	return c.shared[spec.Name], nil
}

// set is what a lock's holders append to.
func (c *client) set(lock string) guardedSet { return setOf(c.framework, lock) }

// giveUpOn remembers a lock that could not be acquired in the end.
func (c *client) giveUpOn(lock string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck = append(c.stuck, lock)
}

// close closes everything, and fails if any goroutine is left. That no server has confirmed the
// end of the session is no failure of this process: the history tells it.
func (c *client) close(before goleak.Option) error {
	unconfirmed := c.framework.Close()
	err := c.way.close()
	c.cancel()
	if leak := goleak.Find(before); leak != nil {
		err = errors.Join(err, leak)
	}
	last, failure := measure()
	c.history.add(event{Kind: closed, Figures: last, Unconfirmed: text(unconfirmed), Error: text(errors.Join(err, failure))})
	return errors.Join(err, c.history.close())
}

// text is the text of an error, if there is one.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
