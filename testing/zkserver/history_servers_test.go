// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"context"
	"flag"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
)

var (
	realHistories = flag.Uint64("real-histories", 2, "random `histories` to check on a real ensemble")
	ownHistories  = flag.Uint64("own-histories", 30, "random `histories` to check on the ensemble of this package")
)

// own is an ensemble of this package.
type own struct{ *zkserver.Ensemble }

func (o own) dial(ctx context.Context, server int) (net.Conn, error) {
	return o.Server(server).Dial(ctx, "", "")
}

func (o own) settle(ctx context.Context) error {
	_, err := o.AwaitLeader(ctx)
	return err
}

func (o own) begin(f trouble) (deposes bool, end func() error, err error) {
	s, leader := o.Server(f.server), o.Leader()
	if leader == nil {
		leader = s
	}
	healed := func(heal func()) func() error {
		return func() error {
			heal()
			return nil
		}
	}
	switch f.kind {
	case killLeader:
		s = leader
		fallthrough
	case killServer:
		return false, s.Restart, s.Stop()
	case pauseServer:
		s.Pause()
		return s == leader, healed(s.Resume), nil
	case isolateLeader:
		s = leader
		fallthrough
	case isolateServer:
		return s == leader, healed(o.Isolate(s)), nil
	}
	panic(f.kind)
}

func (o own) slow(server int, d time.Duration) {
	slow := o.Server(server)
	for _, s := range o.Servers() {
		o.Delay(slow, s, d)
		o.Delay(s, slow, d)
	}
	o.Lag(slow, d, 0)
}

// apache is a real ensemble in a network.
type apache struct {
	*ensemble.Ensemble

	host *ensemble.Host // of the clients
}

func (a apache) dial(ctx context.Context, server int) (net.Conn, error) {
	return a.host.DialContext(ctx, "tcp", a.Server(server).Addr())
}

func (a apache) settle(ctx context.Context) error { return a.AwaitSync(ctx) }

func (a apache) begin(f trouble) (deposes bool, end func() error, err error) {
	ctx := context.Background() // what it is for is bounded by itself
	leader, err := a.Leader(ctx)
	if err != nil {
		return false, nil, err
	}
	s := a.Server(f.server)
	switch f.kind {
	case killLeader:
		s = leader
		fallthrough
	case killServer:
		return false, func() error { return s.Restart(ctx) }, s.Kill()
	case pauseServer:
		return s == leader, s.Resume, s.Pause()
	case isolateLeader:
		s = leader
		fallthrough
	case isolateServer:
		for _, other := range a.Servers() {
			if other != s {
				a.Network().Cut(s.Host(), other.Host())
			}
		}
		return s == leader, func() error {
			a.Network().HealAll()
			return nil
		}, nil
	}
	panic(f.kind)
}

func (a apache) slow(server int, d time.Duration) {
	slow := a.Server(server)
	for _, s := range a.Servers() {
		if s != slow {
			a.Network().Delay(slow.Host(), s.Host(), d)
		}
	}
}

// TestRandomHistoriesOfEnsemble checks what clients of this package's ensemble hear while servers meet faults.
func TestRandomHistoriesOfEnsemble(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*ownHistories; seed++ {
		synctest.Test(t, func(t *testing.T) {
			e := must.Get(zkserver.NewEnsemble(3, zkserver.WithObservers(1), zkserver.WithoutListener()))(t)
			defer func() { require.NoError(t, e.Close()) }()
			for i, s := range e.Servers() {
				require.NoError(t, e.ClockRate(s, 0.9+float64((seed>>(2*i))%4)/15)) // 1.1 is the fastest
			}
			h, err := playHistory(t.Context(), own{e}, seed)
			require.NoError(t, err, "seed %d\n%v", seed, h)
			require.NoError(t, h.check(), "seed %d\n%v", seed, h)
		})
	}
}

// TestRandomHistoriesOfApache holds a real ensemble to the same rules, so that what is allowed there is allowed here.
func TestRandomHistoriesOfApache(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache ZooKeeper")
	}
	e := must.Get(ensemble.Start(t.Context(), ensemble.WithSize(3), ensemble.WithObservers(1), ensemble.WithNetwork()))(t)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	host := must.Get(e.Network().Join("clients"))(t)
	for seed := *firstSeed; seed < *firstSeed+*realHistories; seed++ {
		h, err := playHistory(t.Context(), apache{e, host}, seed)
		require.NoError(t, err, "seed %d\n%v", seed, h)
		require.NoError(t, h.check(), "seed %d\n%v", seed, h)
	}
}
