// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// DefaultTouchName is the name of the child that a [PersistentTtlNode] touches.
const DefaultTouchName = "touch"

// PersistentTtlNode keeps a znode that outlives its session. The znode exists while
// a process touches a child of it. The server deletes both when no process has
// touched the child for the time to live. It is Curator's class of that name. The
// servers must have extendedTypesEnabled.
//
// Layout: path and path/touch, both in the mode [framework.PersistentWithTTL].
// The server deletes the znode up to two times to live after the last touch.
// The znode of a Curator before 5.9 is a container, and is kept as it is found.
//
// It is safe for concurrent use.
type PersistentTtlNode struct { //nolint:revive // Curator's name
	node  *PersistentNode
	touch string
	ttl   time.Duration

	stop    context.CancelFunc
	stopped chan struct{}
}

// NewPersistentTtlNode returns a node that keeps a znode with the data at path,
// and touches its child every half time to live. It checks its arguments and
// sends nothing. The options [WithACL] and [WithoutParents] apply, [WithProtection]
// is refused, and ttl replaces a [WithTTL].
func NewPersistentTtlNode( //nolint:revive // Curator's name
	client *framework.Framework, path string, ttl time.Duration, data []byte, opts ...Option,
) (*PersistentTtlNode, error) {
	node, err := NewPersistentNode(client, path, framework.PersistentWithTTL, data, slices.Concat(opts, []Option{WithTTL(ttl)})...)
	if err != nil {
		return nil, err
	}
	if node.cfg.protected {
		return nil, fmt.Errorf("nodes: %s: WithProtection, expected no such option: several processes keep one znode", path)
	}
	node.cfg.stays = true
	stopped := make(chan struct{})
	return &PersistentTtlNode{
		node: node, touch: framework.JoinPath(path, DefaultTouchName), ttl: ttl, stop: func() {}, stopped: stopped,
	}, nil
}

// Start creates the znode in the background, keeps it, and returns at once. A
// node is started once.
func (n *PersistentTtlNode) Start() error {
	n.node.mu.Lock() // a Close at the same time must find both goroutines, or none
	defer n.node.mu.Unlock()
	if err := n.node.startLocked(); err != nil {
		return err
	}
	var ctx context.Context
	ctx, n.stop = context.WithCancel(context.Background())
	go n.keepTouching(ctx)
	return nil
}

// keepTouching touches the child until ctx ends. A touch that fails, or that comes
// before the znode, is repeated after a pause.
func (n *PersistentTtlNode) keepTouching(ctx context.Context) {
	defer close(n.stopped)
	loop, refused := attempt.Loop{Client: n.node.client, Longest: n.ttl / 2}, false
	loop.Failed = func(err error) {
		switch {
		case ctx.Err() != nil, errors.Is(err, errNoZnode): // the keeper says why
		case mayPass(err):
			n.node.client.Logger().Debug("a node with a time to live was not touched", logPath, n.touch, "error", err)
		default:
			refused = true
			n.node.fail(err)
		}
	}
	for loop.Do(ctx, n.touchOnce) == nil {
		if refused {
			n.node.nudge() // the keeper finds the znode, and reports it
			refused = false
		}
		attempt.Rest(ctx, n.node.client, n.ttl/2)
	}
}

// errNoZnode says that there is nothing to touch yet.
var errNoZnode = errors.New("no znode to touch")

func (n *PersistentTtlNode) touchOnce(ctx context.Context) error {
	if err := n.node.WaitForInitialCreate(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNoZnode, err)
	}
	_, err := n.node.client.Create(ctx, n.touch, nil, n.options()...)
	return err
}

func (n *PersistentTtlNode) options() []framework.CreateOption {
	opts := []framework.CreateOption{
		framework.WithMode(framework.PersistentWithTTL), framework.WithTTL(n.ttl), framework.OrSetData(), framework.Idempotent(),
	}
	if n.node.cfg.acl != nil {
		opts = append(opts, framework.WithACL(n.node.cfg.acl...))
	}
	return opts
}

// Path returns the path of the znode.
func (n *PersistentTtlNode) Path() string { return n.node.Path() }

// Data returns a copy of the data that the znode has or will have.
func (n *PersistentTtlNode) Data() []byte { return n.node.Data() }

// SetData is [PersistentNode.SetData].
func (n *PersistentTtlNode) SetData(ctx context.Context, data []byte) error {
	return n.node.SetData(ctx, data)
}

// WaitForInitialCreate is [PersistentNode.WaitForInitialCreate].
func (n *PersistentTtlNode) WaitForInitialCreate(ctx context.Context) error {
	return n.node.WaitForInitialCreate(ctx)
}

// OnChange is [PersistentNode.OnChange].
func (n *PersistentTtlNode) OnChange(fn func(Change)) *listen.Registration {
	return n.node.OnChange(fn)
}

// Err is [PersistentNode.Err].
func (n *PersistentTtlNode) Err() error { return n.node.Err() }

// Close stops touching. The znode stays until the server finds that its time to
// live has passed. Close blocks until nothing of the node runs any more.
func (n *PersistentTtlNode) Close() error {
	n.node.mu.Lock()
	n.node.endLocked() // from here on a Start fails
	stop, started := n.stop, n.node.stop != nil
	n.node.mu.Unlock()
	stop()
	err := n.node.Close()
	if started {
		<-n.stopped
	}
	return err
}
