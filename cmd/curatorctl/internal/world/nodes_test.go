// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/recipes/nodes"
)

// timeToLive is that of what outlives its session.
const timeToLive = 4 * time.Second

// kin is what a process keeps: a member of a group, and a znode that outlives its session.
type kin struct {
	member   *nodes.GroupMember
	outlives *nodes.PersistentTtlNode
	data     string // the newest of both
}

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
	m.family = &kin{member: group, outlives: outlives}
	m.close = append(m.close, outlives.Close, group.Close)
	m.acts["nodes"] = func(ctx context.Context, random *rand.Rand) {
		ctx, cancel := context.WithTimeout(ctx, upTo(random, 5*time.Second))
		defer cancel()
		m.family.data = fmt.Sprintf("data-%d", random.IntN(1000))
		data := []byte(m.family.data)
		m.logf("sets %s: %v, %v", data, group.SetData(ctx, data), outlives.SetData(ctx, data))
	}
	if err := group.Start(); err != nil {
		return err
	}
	return outlives.Start()
}

// settleNodes finds members of a group that one of them lacks, and znodes that outlive their process for too long, or too short.
func (all *truth) settleNodes(m *member) {
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
