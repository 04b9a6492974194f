// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

// group is what all parts of a member know: its group and its settings. It does not change.
type group struct {
	client    *framework.Framework
	at        layout
	names     Names
	cfg       config
	changes   *listen.Set[Change]
	telemetry telemetry
}

func newGroup(client *framework.Framework, at layout, names Names, cfg config) (*group, error) {
	if cfg.id == "" {
		cfg.id = newID()
	}
	t, err := newTelemetry(client, string(at))
	if err != nil {
		return nil, err
	}
	g := &group{
		client: client, at: at, names: names, cfg: cfg, telemetry: t,
		changes: listen.New[Change](attempt.LogPanics(client, string(at), "a listener of partitions panicked")),
	}
	_, err = g.newLock("partition", nil) // the options of the lock are good
	return g, err
}

// newID names a member that was given no id, so that operators find its process.
func newID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "member"
	}
	return fmt.Sprintf("%s-%d-%08x", strings.ReplaceAll(host, "/", "-"), os.Getpid(), rand.Uint32())
}

// lock returns the folder of the lock of a partition.
func (g *group) lock(name string) string { return g.cfg.folders.of(g.at, name) }

// newLock returns the lock of a partition. ahead is told which contenders stand before this member.
func (g *group) newLock(name string, ahead func([]string)) (*locks.LockInternals, error) {
	opts := slices.Concat([]locks.Option{locks.WithRecipeName("partition")}, g.cfg.lock, []locks.Option{locks.WithLabel(g.cfg.id), locks.WithoutReentry()})
	return locks.NewLockInternals(g.client, newDriver(ahead), g.lock(name), lockName, 1, opts...)
}

// newRegistration returns what the znode of this member says before it has reported anything.
func (g *group) newRegistration() registration {
	own := registration{Capacity: g.cfg.capacity, Return: g.cfg.returns.Milliseconds(), Zone: g.cfg.zone, Set: g.names.id()}
	if g.cfg.prepare != nil {
		own.Standbys = &g.cfg.standbys
	}
	return own
}
