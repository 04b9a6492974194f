// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/testing/zkserver"
)

// timeToLive is that of what outlives its session.
const timeToLive = 4 * time.Second

// kin is what a process keeps: a member of a group, and a znode that outlives its session.
type kin struct {
	member   *nodes.GroupMember
	outlives *nodes.PersistentTtlNode
	kept     *nodes.PersistentNode
	data     string // the newest of all
}

var writtenByHand = []byte("by hand")

// kin prepares a member of a group.
func (m *member) kin() error {
	id := fmt.Sprintf("%d-%x", m.c.Index, m.c.Session().ID()) // no process after it has the same
	group, err := nodes.NewGroupMember(m.client, "/members", id, nil)
	if err != nil {
		return err
	}
	outlives, err := nodes.NewPersistentTtlNode(m.client, "/outlives/"+id, timeToLive, nil)
	if err != nil {
		return err
	}
	var opts []nodes.Option
	switch m.o.get("kept") {
	case "protected":
		opts = append(opts, nodes.WithProtection())
	case "edited":
		opts = append(opts, nodes.WithEdits(func(data []byte) bool { return bytes.Equal(data, writtenByHand) }))
	default:
	}
	kept, err := nodes.NewPersistentNode(m.client, "/kept/"+id, framework.Ephemeral, nil, opts...)
	if err != nil {
		return err
	}
	m.family = &kin{member: group, outlives: outlives, kept: kept}
	m.close = append(m.close, outlives.Close, group.Close, kept.Close)
	m.acts["nodes"] = func(ctx context.Context, random *rand.Rand) {
		ctx, cancel := context.WithTimeout(ctx, upTo(random, 5*time.Second))
		defer cancel()
		m.family.data = fmt.Sprintf("data-%d", random.IntN(1000))
		data := []byte(m.family.data)
		m.logf("sets %s: %v, %v, %v", data, group.SetData(ctx, data), outlives.SetData(ctx, data), kept.SetData(ctx, data))
		if random.IntN(3) == 0 { // as an operator does
			m.logf("deletes %s: %v", kept.ActualPath(), m.client.Delete(ctx, kept.ActualPath()))
		}
	}
	return errors.Join(group.Start(), outlives.Start(), kept.Start())
}

// settleNodes finds members of a group that one of them lacks, and znodes that outlive their process for too long, or too short.
func (all *truth) settleNodes(ctx context.Context, m *member) {
	if !m.o.plays("nodes") {
		return
	}
	all.chance(ruleMembers)
	all.chance(ruleOutlives)
	data, there := make(map[string]string), make(map[string]string)
	for _, other := range all.members {
		data[other.family.member.ID()] = other.family.data
	}
	for _, z := range m.znodes("/outlives") {
		if id, isNode := strings.CutPrefix(z.Path, "/outlives/"); isNode && !strings.Contains(id, "/") {
			there[id] = string(z.Data)
		}
	}
	if !maps.Equal(there, data) {
		m.findf("processes keep %v, expected %v", there, data)
	}
	for _, other := range all.members {
		members := make(map[string]string)
		for id, data := range other.family.member.Members() {
			members[id] = string(data)
		}
		if !maps.Equal(members, data) {
			other.findf("the group has %v, expected %v", members, data)
		}
	}
	all.settleKept(ctx, m)
	last := all.sorted()[0]
	if err := last.family.outlives.Close(); err != nil {
		m.findf("close: %v", err)
	}
	time.Sleep(3*timeToLive + time.Second)
	for _, z := range m.znodes("/outlives") {
		if slices.Contains(strings.Split(z.Path, "/"), last.family.member.ID()) {
			m.findf("%s is left behind", z.Path)
		}
	}
}

// settleKept finds znodes that processes keep, and that are not there, or have other data: the newest of the process, or what another client
// has written if the process takes that over.
func (all *truth) settleKept(ctx context.Context, m *member) {
	all.chance(ruleKept)
	expect := func(isWritten bool) {
		there := m.znodes("/kept")
		for _, other := range all.members {
			path, data := other.family.kept.ActualPath(), other.family.data
			if isWritten && m.o.is("kept", "edited") {
				data = string(writtenByHand)
			}
			if !slices.ContainsFunc(there, func(z zkserver.Znode) bool { return z.Path == path && string(z.Data) == data }) {
				other.findf("keeps %s with %q, and there are %v", path, data, there)
			}
		}
	}
	expect(false)
	for _, other := range all.members {
		path := other.family.kept.ActualPath()
		err := m.client.Set(ctx, path, writtenByHand, framework.WithVersion(framework.AnyVersion))
		time.Sleep(time.Second) // its process hears of it
		if err := errors.Join(err, m.client.Delete(ctx, path)); err != nil {
			m.findf("%s: %v", path, err)
		}
	}
	time.Sleep(time.Second)
	expect(true)
}
