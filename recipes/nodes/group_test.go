// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/testing/zktest"
)

const group = "/group"

func joined(tb testing.TB, client *framework.Framework, id string) *nodes.GroupMember {
	tb.Helper()
	member := must.Get(nodes.NewGroupMember(client, group, id, []byte("data of "+id)))(tb)
	tb.Cleanup(func() { require.NoError(tb, member.Close()) })
	require.NoError(tb, member.Start())
	require.NoError(tb, member.WaitUntilJoined(zktest.Context(tb)))
	return member
}

// awaitMembers waits until a member knows exactly these.
func awaitMembers(tb testing.TB, member *nodes.GroupMember, want map[string]string) {
	tb.Helper()
	var last map[string][]byte
	err := member.WaitFor(zktest.Context(tb), func(members map[string][]byte) bool {
		last = members
		for id, data := range want {
			if got, ok := members[id]; !ok || string(got) != data {
				return false
			}
		}
		return len(members) == len(want)
	})
	require.NoError(tb, err, "%q, expected %q", last, want)
}

func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const size = 4
		members, all := make([]*nodes.GroupMember, size), map[string]string{}
		clients := make([]*framework.Framework, size)
		for i := range members {
			id := fmt.Sprintf("member-%d", i)
			clients[i] = zktest.Client(t, server)
			members[i] = joined(t, clients[i], id)
			all[id] = "data of " + id
		}
		for _, member := range members {
			awaitMembers(t, member, all)
		}

		require.NoError(t, members[1].SetData(zktest.Context(t), []byte("newer")))
		all["member-1"] = "newer"
		require.NoError(t, clients[2].Close())
		delete(all, "member-2")
		require.NoError(t, members[3].Close())
		delete(all, "member-3")

		awaitMembers(t, members[0], all)
		awaitMembers(t, members[1], all)
		require.Empty(t, members[3].Members())
		require.ErrorIs(t, members[3].Err(), nodes.ErrClosed)
	})
}

func TestGroupMemberStaysOneOverItsSession(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		a, b := joined(t, client, "a"), joined(t, zktest.Client(t, server), "b")
		changes := make(chan nodes.MemberChange, 100)
		registration := b.OnChange(func(c nodes.MemberChange) { changes <- c })
		defer func() {
			registration.Remove()
			<-registration.Done()
		}()
		both := map[string]string{"a": "data of a", "b": "data of b"}
		awaitMembers(t, b, both)

		zktest.KillSession(t, client)

		awaitNode(t, client, group+"/a", func(_ []byte, stat *framework.Stat) bool {
			return stat != nil && stat.EphemeralOwner == client.Session().ID()
		})
		awaitMembers(t, a, both)
		awaitMembers(t, b, both)
	})
}

func TestGroupListenersHearOfMembers(t *testing.T) {
	server := zktest.NewServer(t)
	a := must.Get(nodes.NewGroupMember(zktest.Client(t, server), group, "a", []byte("1")))(t)
	changes := make(chan nodes.MemberChange, 100)
	registration := a.OnChange(func(c nodes.MemberChange) {
		if c.ID == "b" {
			changes <- c
		}
	})
	require.NoError(t, a.Start())
	defer func() {
		require.NoError(t, a.Close())
		registration.Remove()
		<-registration.Done()
	}()
	require.NoError(t, a.WaitUntilJoined(zktest.Context(t)))
	b := joined(t, zktest.Client(t, server), "b")
	require.Equal(t, "data of b", string(zktest.Await(t, changes, "b").Data))

	operator := zktest.Client(t, server)
	require.NoError(t, operator.Set(zktest.Context(t), group+"/b", []byte("data of b"))) // which changes no data
	require.NoError(t, b.SetData(zktest.Context(t), []byte("2")))
	require.Equal(t, "2", string(zktest.Await(t, changes, "the new data").Data))
	require.NoError(t, b.Close())

	left := zktest.Await(t, changes, "the end of b")
	require.True(t, left.Left)
	require.Equal(t, "2", string(left.Data))
	require.Empty(t, changes)
}

// An operator's znode at the path of a member is not the member's.
func TestGroupMemberLeavesAnOperatorsZnodeAlone(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		other := zktest.Client(t, server)
		must.Get(other.Create(zktest.Context(t), group+"/a", []byte("theirs"), framework.CreatingParentsIfNeeded()))(t)
		a := must.Get(nodes.NewGroupMember(zktest.Client(t, server), group, "a", []byte("data of a")))(t)
		require.NoError(t, a.Start())

		require.Eventually(t, func() bool { return errors.Is(a.Err(), nodes.ErrTaken) }, limit, time.Millisecond)

		require.NoError(t, a.Close())
		requireTheirs(t, other, group+"/a")
	})
}

func TestGroupBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for _, id := range []string{"", "a/b", ".."} {
		_, err := nodes.NewGroupMember(client, group, id, nil)
		require.ErrorContains(t, err, "nodes: ", "%q", id)
	}
	_, err := nodes.NewGroupMember(client, group, "a", nil, nodes.WithProtection())
	require.ErrorContains(t, err, "named after its id")
	_, err = nodes.NewGroupMember(nil, group, "a", nil)
	require.ErrorContains(t, err, "client nil")
	member := must.Get(nodes.NewGroupMember(client, group, "a", nil))(t)
	require.Panics(t, func() { member.OnChange(nil) })
	require.ErrorContains(t, member.WaitFor(t.Context(), nil), "function nil")
}
