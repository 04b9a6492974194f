// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// GroupMember is a member of a group and knows the other members. It stays one over
// lost connections and sessions, from [GroupMember.Start] to [GroupMember.Close]. It
// shares the group with Curator's class of that name.
//
// Layout: an ephemeral znode path/id per member, with data of its own, below
// container nodes. As in Curator, each other znode there counts as a member, too: a
// persistent one, as a tool makes it that copies a tree, stays until it is deleted.
//
// It is safe for concurrent use.
type GroupMember struct {
	id    string
	node  *PersistentNode
	cache *cache.CuratorCache
}

// Member is one member of a group.
type Member struct {
	ID   string
	Data []byte // must not be changed
}

// NewGroupMember returns a member of the group at path with an id that no other
// member has. It checks its arguments and sends nothing. The options [WithACL] and
// [WithoutParents] apply; [WithProtection] and [WithTTL] are refused.
func NewGroupMember(client *framework.Framework, path, id string, data []byte, opts ...Option) (*GroupMember, error) {
	if id == "" || strings.Contains(id, "/") {
		return nil, fmt.Errorf("nodes: group %s: id %q, expected a name without a slash", path, id)
	}
	node, err := NewPersistentNode(client, framework.JoinPath(path, id), framework.Ephemeral, data, opts...)
	if err != nil {
		return nil, err
	}
	if node.cfg.protected || node.cfg.ttl != 0 {
		return nil, fmt.Errorf("nodes: group %s: WithProtection or WithTTL, expected no such option: a member is named after its id", path)
	}
	view, err := cache.NewCuratorCache(client, path, cache.WithChildrenOnly())
	if err != nil {
		return nil, fmt.Errorf("nodes: group: %w", err)
	}
	return &GroupMember{id: id, node: node, cache: view}, nil
}

// Start joins the group in the background, begins to follow it, and returns at
// once. A member is started once.
func (g *GroupMember) Start() error {
	if err := g.node.Start(); err != nil {
		return err
	}
	if err := g.cache.Start(); err != nil {
		return errors.Join(fmt.Errorf("nodes: group %s: %w", g.cache.Path(), err), g.node.Close())
	}
	return nil
}

// ID returns the id of this member.
func (g *GroupMember) ID() string { return g.id }

// WaitUntilJoined blocks until this member has joined for the first time and
// knows all members of that moment. It fails as
// [PersistentNode.WaitForInitialCreate] does.
func (g *GroupMember) WaitUntilJoined(ctx context.Context) error {
	if err := g.node.WaitForInitialCreate(ctx); err != nil {
		return err
	}
	return attempt.Wrapf(g.cache.Fresh(ctx), "nodes: group %s", g.cache.Path())
}

// SetData sets the data of this member as [PersistentNode.SetData] does.
func (g *GroupMember) SetData(ctx context.Context, data []byte) error {
	return g.node.SetData(ctx, data)
}

// Err returns nil while this member has joined, otherwise why it has not.
func (g *GroupMember) Err() error { return g.node.Err() }

// Members returns the data of the members by their ids, as far as this member
// knows. It sends nothing. This member is always among them with its newest
// data, until it is closed; then there are none. The data must not be changed.
func (g *GroupMember) Members() map[string][]byte {
	if errors.Is(g.node.Err(), ErrClosed) {
		return map[string][]byte{}
	}
	members := maps.Collect(g.others)
	members[g.id] = g.node.Data()
	return members
}

// others yields the other members in the picture of the cache.
func (g *GroupMember) others(yield func(string, []byte) bool) {
	for id, node := range g.cache.Children(g.cache.Path()) {
		if !yield(id, node.Data) {
			return
		}
	}
}

// WaitFor blocks until accept returns true for the members, which it is asked
// at once and after each change, on the goroutine of the caller.
func (g *GroupMember) WaitFor(ctx context.Context, accept func(members map[string][]byte) bool) error {
	if accept == nil {
		return fmt.Errorf("nodes: group %s: function nil, expected one that accepts the members", g.cache.Path())
	}
	err := g.cache.WaitFor(ctx, func(*cache.CuratorCache) bool { return accept(g.Members()) })
	return attempt.Wrapf(err, "nodes: group %s", g.cache.Path())
}

// MemberChange is the coming or going of a member, or a change of its data.
type MemberChange struct {
	Member

	// Left says that the member has left.
	Left bool
}

// OnChange calls fn for each member that joins or leaves, and for each change of a
// member's data. The calls come in order, on a goroutine of their own; see package
// listen. A listener that is added before Start hears of all members. This member is
// reported like every other member, as the server has it.
func (g *GroupMember) OnChange(fn func(MemberChange)) *listen.Registration {
	if fn == nil {
		return g.cache.Listen(nil) // panics here, where the caller's mistake shows
	}
	return g.cache.Listen(func(e cache.Event) {
		_, id := framework.SplitPath(e.Path)
		switch {
		case e.Type == cache.NodeDeleted:
			fn(MemberChange{Member: Member{ID: id, Data: e.Old.Data}, Left: true})
		case e.Type == cache.NodeCreated, e.Type == cache.NodeChanged && !bytes.Equal(e.Old.Data, e.New.Data):
			fn(MemberChange{Member: Member{ID: id, Data: e.New.Data}})
		}
	}, cache.For(cache.NodeCreated, cache.NodeChanged, cache.NodeDeleted))
}

// Close leaves the group and stops following it. It waits until the server has
// confirmed that the member is gone, and fails, as [PersistentNode.Close] does.
func (g *GroupMember) Close() error {
	return errors.Join(g.node.Close(), g.cache.Close())
}
