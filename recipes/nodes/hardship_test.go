// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/nodes"
)

// withoutHardship are the exported calls that are in no row, and why.
var withoutHardship = map[string]string{
	"NewPersistentNode":     "it makes no request",
	"NewPersistentTtlNode":  "it makes no request",
	"NewGroupMember":        "it makes no request",
	"PersistentNode.Err":    "it makes no request",
	"PersistentTtlNode.Err": "it makes no request",
	"GroupMember.Err":       "it makes no request",
}

func TestHardshipsOfEveryCall(t *testing.T) {
	hardship.CompleteAll(t, hardshipCalls(), withoutHardship)
}

// TestHardships makes every call of the package where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, hardshipCalls(), map[string]string{}) }

// TestHardshipsAtEveryRequest makes every call with every fate of every request.
func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, hardshipCalls()) }

// kept is what the rows need of a recipe of this package.
type kept interface {
	Start() error
	SetData(ctx context.Context, data []byte) error
	Close() error
}

// holding is one run of a call: what it keeps at the server, and gives back.
type holding struct {
	*hardship.Stage

	leaves bool // Close leaves a znode

	mu      sync.Mutex
	count   int
	kept    []kept
	closing sync.WaitGroup
}

func newHolding(s *hardship.Stage, leaves bool) *holding {
	h := &holding{Stage: s, leaves: leaves}
	must.Get(s.Theirs.Create(context.Background(), s.Path, nil))(s.T)
	s.End = func(error) {
		h.closeAll(func(err error) { require.NoError(s.T, err, s.Name) })
		h.requireNothing()
	}
	s.Rival = func() {
		h.closeAll(func(error) {}) // the client may be closed
		h.requireNothing()
	}
	return h
}

// next returns a name that no other participant has.
func (h *holding) next() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	return fmt.Sprintf("node-%d", h.count)
}

// keep begins to keep something.
func (h *holding) keep(k kept, err error) {
	require.NoError(h.T, err)
	require.NoError(h.T, k.Start())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, k)
}

// settle gives back what a call has not got, or what a crowd has.
func (h *holding) settle(k kept, err error) error {
	if err != nil || h.Crowd {
		h.closing.Go(func() { _ = k.Close() }) // closed once more at the end
	}
	return err
}

func (h *holding) closeAll(check func(error)) {
	h.closing.Wait()
	h.mu.Lock()
	all := h.kept
	h.kept = nil
	h.mu.Unlock()
	errs := make(chan error, len(all))
	for _, k := range all {
		go func() { errs <- k.Close() }()
	}
	for range all {
		check(<-errs)
	}
}

// requireNothing waits until no znode is left. The znode of a closed client goes with
// its session. The containers of groups stay.
func (h *holding) requireNothing() {
	if h.leaves {
		return
	}
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		tree := h.left()
		if len(tree) == 0 {
			return
		}
		require.True(h.T, time.Now().Before(deadline), "%s: %q are left", h.Name, tree)
	}
}

// left returns the names of the znodes that are there, without groups that are
// empty.
func (h *holding) left() (names []string) {
	ctx := context.Background()
	children, err := h.Theirs.Children(ctx, h.Path)
	require.NoError(h.T, err, h.Name)
	for _, name := range children {
		if !strings.HasPrefix(name, "group-") {
			names = append(names, name)
			continue
		}
		members, err := h.Theirs.Children(ctx, h.Path+"/"+name)
		require.NoError(h.T, err, h.Name)
		names = append(names, members...)
	}
	return names
}

// requireData checks that the znode has the data, soon: its session may just have ended.
func (h *holding) requireData(path, want string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for node, err := range h.Theirs.Follow(ctx, path) {
		require.NoError(h.T, err, h.Name)
		if string(node.Data) == want {
			return
		}
	}
}

// opener opens one recipe for a participant.
type opener func(h *holding, client *framework.Framework, name string) (kept, error)

func persistentNode(mode framework.CreateMode, opts ...nodes.Option) opener {
	return func(h *holding, client *framework.Framework, name string) (kept, error) {
		return nodes.NewPersistentNode(client, h.Path+"/"+name, mode, []byte("first"), opts...)
	}
}

func ttlNode(h *holding, client *framework.Framework, name string) (kept, error) {
	return nodes.NewPersistentTtlNode(client, h.Path+"/"+name, time.Hour, []byte("first"))
}

// groupMember opens a member of a group of its own: what each member costs grows
// with its group.
func groupMember(h *holding, client *framework.Framework, name string) (kept, error) {
	return nodes.NewGroupMember(client, h.Path+"/group-of-"+name, "member", []byte("first"))
}

// await waits until what was started is there.
func await(ctx context.Context, k kept) error {
	if member, ok := k.(*nodes.GroupMember); ok {
		return member.WaitUntilJoined(ctx)
	}
	return k.(interface {
		WaitForInitialCreate(ctx context.Context) error
	}).WaitForInitialCreate(ctx)
}

// starting starts and waits.
func starting(open opener, leaves bool) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		h := newHolding(s, leaves)
		return func(ctx context.Context) error {
			k, err := open(h, h.Ours, h.next())
			h.keep(k, err)
			return h.settle(k, await(ctx, k))
		}
	}
}

// standing is what stands before the call.
func standing(h *holding, open opener) (k kept, path string) {
	name := h.next()
	k, err := open(h, h.Ours, name)
	h.keep(k, err)
	require.NoError(h.T, await(context.Background(), k), h.Name)
	if _, ok := k.(*nodes.GroupMember); ok {
		name = "group-of-" + name + "/member"
	}
	return k, h.Path + "/" + name
}

func setting(open opener, leaves bool) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		h := newHolding(s, leaves)
		k, path := standing(h, open)
		end := s.End
		s.End = func(err error) {
			if err == nil && !s.Crowd {
				h.requireData(path, "second")
			}
			end(err)
		}
		return func(ctx context.Context) error { return k.SetData(ctx, []byte("second")) }
	}
}

func closing(open opener, leaves bool) func(*hardship.Stage) func(context.Context) error {
	return func(s *hardship.Stage) func(context.Context) error {
		h := newHolding(s, leaves)
		k, _ := standing(h, open)
		return hardship.WithoutContext(k.Close)
	}
}

// waitingFor waits for a member that the rival adds, and changes: a read of the
// member that is refused is repeated with the change.
func waitingFor(s *hardship.Stage) func(context.Context) error {
	h := newHolding(s, false)
	k, path := standing(h, groupMember)
	group, _ := framework.SplitPath(path)
	s.Later = func() {
		other, err := nodes.NewGroupMember(h.Theirs, group, "other", nil)
		h.keep(other, err)
		require.NoError(s.T, other.WaitUntilJoined(context.Background()), s.Name)
		time.Sleep(50 * time.Millisecond)
		require.NoError(s.T, other.SetData(context.Background(), []byte("changed")), s.Name)
	}
	return func(ctx context.Context) error {
		return k.(*nodes.GroupMember).WaitFor(ctx, func(members map[string][]byte) bool {
			_, found := members["other"]
			return found
		})
	}
}

// pending lets Close return before the server has confirmed the removal.
func pending(err error) bool { return errors.Is(err, framework.ErrCleanupPending) }

func hardshipCalls() []hardship.Call {
	ephemeral := persistentNode(framework.Ephemeral)
	start := []string{"PersistentNode.Start", "PersistentNode.WaitForInitialCreate"}
	return []hardship.Call{
		{Name: "PersistentNode: Start and WaitForInitialCreate", Of: start, Requests: 2, Prepare: starting(ephemeral, false)},
		{
			Name: "PersistentNode: Start and WaitForInitialCreate, sequential", Of: start, Requests: 3,
			Prepare: starting(persistentNode(framework.EphemeralSequential), false),
		},
		{
			Name: "PersistentNode: Start and WaitForInitialCreate, protected", Of: start, Requests: 2,
			Prepare: starting(persistentNode(framework.EphemeralSequential, nodes.WithProtection()), false),
		},
		{Name: "PersistentNode: SetData", Of: []string{"PersistentNode.SetData"}, Requests: 4, Prepare: setting(ephemeral, false)},
		{Name: "PersistentNode: Close", Of: []string{"PersistentNode.Close"}, Requests: 3, Prepare: closing(ephemeral, false), May: pending},

		{
			Name: "PersistentTtlNode: Start and WaitForInitialCreate", Requests: 3, Prepare: starting(ttlNode, true),
			Of: []string{"PersistentTtlNode.Start", "PersistentTtlNode.WaitForInitialCreate"},
		},
		{Name: "PersistentTtlNode: SetData", Of: []string{"PersistentTtlNode.SetData"}, Requests: 4, Prepare: setting(ttlNode, true)},
		{Name: "PersistentTtlNode: Close", Of: []string{"PersistentTtlNode.Close"}, Requests: 1, Prepare: closing(ttlNode, true)},

		{
			Name: "GroupMember: Start and WaitUntilJoined", Requests: 10, Spares: 4, Prepare: starting(groupMember, false),
			Of: []string{"GroupMember.Start", "GroupMember.WaitUntilJoined"},
		},
		{Name: "GroupMember: SetData", Of: []string{"GroupMember.SetData"}, Requests: 5, Prepare: setting(groupMember, false)},
		{Name: "GroupMember: WaitFor", Of: []string{"GroupMember.WaitFor"}, Requests: 2, Prepare: waitingFor},
		{Name: "GroupMember: Close", Of: []string{"GroupMember.Close"}, Requests: 5, Spares: 1, Prepare: closing(groupMember, false), May: pending},
	}
}
