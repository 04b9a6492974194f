// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

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
