// SPDX-License-Identifier: Apache-2.0

// Package heldnode follows the node of a lock that is held: whether it is still there, and what
// other clients write to it. A node has a goroutine only while there is something to find out,
// as a client may hold thousands of locks.
package heldnode

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// The pause between two tries to read a node, and its limit.
const (
	pauseAtFirst = 100 * time.Millisecond
	maxPause     = 30 * time.Second
)

// Request is what another client writes to the node to ask for the lock: the message of Curator's Revoker.
const Request = "__REVOKE__"

// errDeleted is the loss of all holds whose nodes are deleted by others.
var errDeleted = &framework.LostError{Reason: framework.ReasonNodeDeleted}

// Node is the node of one hold.
type Node struct {
	Client *framework.Framework
	Path   string
	Czxid  int64
	Own    *framework.Watch // on the node; nil before the first

	Hold interface {
		Ended() error     // how the hold has ended, or nil
		Lose(cause error) // ends the hold, and does not block
	}

	mu        sync.Mutex
	due       *time.Timer        // starts the first examine; nil before and after
	examining context.CancelFunc // ends the requests of examine; may be nil
	over      bool               // no examine may begin
	work      sync.WaitGroup     // of examine
	asked     context.Context    // ends when another client asks for the lock; nil before it is needed
	ask       context.CancelFunc // of asked
}

// Start heeds the watch on the node, or sets one after a delay.
func (n *Node) Start(delay time.Duration) {
	switch {
	case n.Own != nil:
		n.heed(n.Own)
	case delay <= 0:
		n.examineLater()
	default:
		n.mu.Lock()
		defer n.mu.Unlock()
		if !n.over {
			n.due = time.AfterFunc(delay, n.examineLater)
		}
	}
}

// examineLater starts examine on its own goroutine, unless the hold is over.
func (n *Node) examineLater() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.due = nil
	if n.over {
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) // it may outlive the hold, see HandOver
	n.examining = cancel
	n.work.Go(func() {
		defer cancel()
		n.examine(ctx)
	})
}

// heed has the watch on the node end the hold.
func (n *Node) heed(own *framework.Watch) {
	// On the receiving goroutine, so that the hold ends before any waiter of this client
	// can learn of the same deletion.
	own.EndOnDeletion(n.Hold.Lose, errDeleted)
	own.OnFired(n.onEvent)
}

// onEvent handles the end of the watch on the node.
func (n *Node) onEvent(event framework.Event) {
	// After anything but a deletion the node may still be there: look, and watch again.
	if event.Type != zk.EventNodeDeleted {
		n.examineLater()
	}
}

// examine reads the node and watches it. It ends the hold if the node is gone. It repeats the
// read until it succeeds, even when the retry policy panics.
func (n *Node) examine(ctx context.Context) {
	pause, told := pauseAtFirst, false
	for first := true; first || n.Hold.Ended() == nil; first = false {
		var own *framework.Watch
		var stat framework.Stat
		var data []byte
		err := attempt.Guard(n.Client, func() (err error) {
			data, err = n.Client.Get(ctx, n.Path, framework.Watched(&own), framework.StoringStatIn(&stat), framework.Undecompressed())
			return err
		})
		if _, panicked := errors.AsType[*attempt.PanicError](err); panicked {
			own.Cancel() // it may have panicked after the read
		}
		switch {
		case errors.Is(err, framework.ErrNoNode), err == nil && stat.Czxid != n.Czxid:
			// Gone, or another node of the same name.
			own.Cancel()
			n.Hold.Lose(errDeleted)
			return
		case err == nil:
			if string(attempt.Plain(n.Client, n.Path, data)) == Request {
				n.Ask()
			}
			// If the hold has ended meanwhile, Stop or HandOver waits for examine. The caller then
			// cancels the watch or hands it on.
			n.mu.Lock()
			n.Own, n.examining = own, nil
			n.mu.Unlock()
			n.heed(own)
			return
		}
		// Without a connection, or without the right to read the node, the hold goes on as
		// long as its session is confirmed.
		if errors.Is(err, framework.ErrNoAuth) && !told {
			told = true
			n.Client.Logger().Warn("lock node cannot be read: its deletion and requests for the lock go unnoticed until it can",
				string(instruments.Path), n.Path, "error", err)
		}
		attempt.Sleep(ctx, pause)
		// A missing right may be missing for as long as the lock is held: ask less often.
		if !framework.Retryable(err) {
			pause = min(2*pause, maxPause)
		}
	}
}

// HandOver stops following the node for this hold, and returns the watch for the next one. It
// lets a watch that is being set arrive, within limits: otherwise a row of holds that are each
// shorter than a round trip would never have one.
func (n *Node) HandOver() *framework.Watch {
	limit := time.AfterFunc(pauseAtFirst, n.end())
	n.work.Wait()
	limit.Stop()
	return n.Own
}

// Stop stops following the node and waits until nothing runs. The watch stays.
func (n *Node) Stop() {
	n.end()()
	n.work.Wait()
}

// end lets no examine begin any more. It returns a function that cancels a running one.
func (n *Node) end() (cancel func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	if n.due != nil {
		n.due.Stop()
	}
	if n.examining == nil {
		return func() {}
	}
	return n.examining
}

// Asked returns a context that ends when another client asks for the lock. It is made when a caller needs it, as
// few do and a client may hold thousands of locks.
func (n *Node) Asked() context.Context {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked == nil {
		n.asked, n.ask = context.WithCancel(context.Background())
	}
	return n.asked
}

// Ask notes that another client asks for the lock.
func (n *Node) Ask() {
	n.Asked()
	n.ask()
}

// IsAsked reports whether another client has asked for the lock.
func (n *Node) IsAsked() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked != nil && n.asked.Err() != nil
}
