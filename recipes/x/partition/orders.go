// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/x/partition/internal/shares"
)

// orders is the data of the znode orders. The head of the plan follows it.
type orders struct {
	Drained  []string          `json:"drained,omitempty"`  // members
	Pinned   map[string]string `json:"pinned,omitempty"`   // members by partitions
	Excluded []string          `json:"excluded,omitempty"` // partitions
}

// ordersOf returns the orders in the data of their znode, none if it is not valid.
func ordersOf(client *framework.Framework, at layout, data []byte) orders {
	o, err := parseOrders(data)
	if err != nil {
		client.Logger().Error("the orders for partitions are not valid, and count as none", logPath, at.orders(), "error", err)
		return orders{}
	}
	return o
}

func parseOrders(data []byte) (o orders, err error) {
	if len(data) > 0 {
		err = json.Unmarshal(data, &o)
	}
	return o, err
}

// Drain has a member of the group at path give its partitions up, one after the other, or as many at a time as
// [WithMoves] allows. The member stays without partitions, also after a restart, until a Drain with on false. While all members
// are drained, it has no effect. The call writes the order and returns, also for a member that is down. [Read]
// shows what is done. The error matches [framework.ErrNoNode] when there is no znode at path, as for the calls
// below. Orders stay when the last member leaves.
func Drain(ctx context.Context, client *framework.Framework, path, member string, on bool) error {
	return order(ctx, client, path, member, func(o *orders) { o.Drained = with(o.Drained, member, on) })
}

// Pin has a member have a partition, whatever the loads are, while that member lives and is not drained. An empty
// member ends the pin.
func Pin(ctx context.Context, client *framework.Framework, path, partition, member string) error {
	if member != "" && !isName(member) {
		return wrap(layout(path), fmt.Errorf("member %q, expected the id of a member", member))
	}
	return order(ctx, client, path, partition, func(o *orders) {
		if o.Pinned == nil {
			o.Pinned = make(map[string]string)
		}
		o.Pinned[partition] = member
		if member == "" {
			delete(o.Pinned, partition)
		}
	})
}

// Exclude keeps a partition from all members, until an Exclude with on false. The context of its function ends
// with [ErrRemoved].
func Exclude(ctx context.Context, client *framework.Framework, path, partition string, on bool) error {
	return order(ctx, client, path, partition, func(o *orders) { o.Excluded = with(o.Excluded, partition, on) })
}

// with returns the sorted list with the name or without it.
func with(list []string, name string, on bool) []string {
	list = slices.DeleteFunc(list, func(other string) bool { return other == name })
	if on {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// order changes the orders. An order may be written twice, so a lost reply does no harm.
func order(ctx context.Context, client *framework.Framework, path, name string, change func(*orders)) error {
	at := layout(path)
	if err := attempt.CheckCall(ctx, client, path); err != nil {
		return wrap(at, err)
	}
	if !isName(name) {
		return wrap(at, fmt.Errorf("name %q, expected the name of a member or a partition", name))
	}
	err := untilWritten(ctx, func() error { return orderOnce(ctx, client, at, change) })
	if errors.Is(err, errNoGroup) {
		err = fmt.Errorf("%w: %w", err, framework.ErrNoNode)
	}
	return wrap(layout(path), err)
}

// errNoGroup is not taken for a write of another client that came first.
var errNoGroup = errors.New("no group there")

func orderOnce(ctx context.Context, client *framework.Framework, at layout, change func(*orders)) error {
	var stat framework.Stat
	data, err := client.Get(ctx, at.orders(), framework.StoringStatIn(&stat), framework.Undecompressed())
	isMissing := errors.Is(err, framework.ErrNoNode)
	if err != nil && !isMissing {
		return err
	}
	o, err := parseOrders(attempt.Plain(client, at.orders(), data))
	if err != nil {
		return err
	}
	change(&o)
	if data, err = json.Marshal(o); err != nil {
		return err
	}
	if !isMissing {
		return client.Set(ctx, at.orders(), data, framework.WithVersion(stat.Version), framework.Uncompressed())
	}
	_, err = client.Create(ctx, at.orders(), data, framework.Uncompressed())
	if errors.Is(err, framework.ErrNoNode) {
		return errNoGroup
	}
	return err
}

// isDrained reports whether a member is to give its partitions up.
func (s *state) isDrained(id string) bool {
	return s.members[id].Drained || slices.Contains(s.orders.Drained, id)
}

// drains reports whether a member that is drained has partitions.
func (s *state) drains() bool {
	for id, sh := range s.shares {
		if _, isThere := s.members[id]; isThere && s.isDrained(id) && len(sh.Partitions) > 0 {
			return true
		}
	}
	return false
}

// isPaced reports whether the plan must tell which partitions are under way.
func (s *state) isPaced(cfg config) bool { return cfg.moves > 0 || s.drains() }

// terms returns what the next plan may do.
func (s *state) terms(ctx context.Context, client *framework.Framework, at layout, cfg config, rebalance bool) (shares.Terms, error) {
	t := shares.AtWill(rebalance)
	t.Pins, t.Still, t.Warm = s.orders.Pinned, make(map[string]bool), s.warm()
	if err := s.findMoving(ctx, client, at); err != nil {
		return t, err
	}
	maps.Copy(t.Still, s.moving)
	underWay := s.underWay(cfg)
	t.Drains = max(1, cfg.moves) - underWay
	if cfg.moves > 0 {
		t.Most = cfg.moves - underWay
	}
	for _, sh := range s.shares {
		for name := range sh.Moved {
			t.Still[name] = t.Still[name] || sh.hasMovedWithin(name, cfg.cool)
		}
	}
	return t, nil
}

// underWay counts the partitions under way that count against the budget: not those whose functions have not returned for
// the grace. Otherwise one of them would hold all others back.
func (s *state) underWay(cfg config) (n int) {
	for _, sh := range s.shares {
		for _, name := range sh.Moving {
			_, isDated := sh.Moved[name]
			if s.moving[name] && (!isDated || sh.hasMovedWithin(name, cfg.grace)) {
				n++
			}
		}
	}
	return n
}

// findMoving finds which partitions are still under way: their owners live, and do not have them yet.
func (s *state) findMoving(ctx context.Context, client *framework.Framework, at layout) error {
	s.moving = make(map[string]bool)
	owners := make(map[string]string)
	for id, sh := range s.shares {
		if _, isThere := s.members[id]; isThere {
			for _, name := range sh.Moving {
				owners[name] = id
			}
		}
	}
	queues, err := readQueues(ctx, client, at, slices.Collect(maps.Keys(owners)))
	for _, q := range queues {
		if q.state(s.owners).Holder != owners[q.name] {
			s.moving[q.name] = true
		}
	}
	return err
}

// hasMovedWithin reports whether a partition has come to the member of the share in the last d. A time to come does not count: a
// clock that is ahead holds no partition back.
func (s share) hasMovedWithin(name string, d time.Duration) bool {
	at, found := s.Moved[name]
	age := time.Since(at)
	return found && age >= 0 && age < d
}

// moved returns when the partitions have moved for which the next plans must know it, with those of the next plan.
func (s *state) moved(out shares.Outcome, loads map[string]int, cfg config) map[string]time.Time {
	moved, now := make(map[string]time.Time), time.Now().UTC()
	for _, sh := range s.shares {
		for name, at := range sh.Moved {
			if s.moving[name] || sh.hasMovedWithin(name, cfg.cool) || loads[name] > 0 && sh.hasMovedWithin(name, warmUp) {
				moved[name] = at
			}
		}
	}
	for name := range out.Moved {
		if cfg.cool > 0 || loads[name] > 0 || s.isPaced(cfg) {
			moved[name] = now
		}
	}
	return moved
}
