// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// fault is one way to hurt a cluster.
type fault struct {
	id   string // N1 to N18; combinations have another one
	name string
	what part // that it hurts

	// alone says that it never comes together with another one.
	alone bool

	// frames says that it needs clients with a proxy.
	frames bool

	// silent says that clients may hear nothing, or too late, of what their server says.
	silent bool

	// cannot says why this machine does not let it be done; nil is that any does which can run an
	// ensemble with a network.
	cannot func() error

	// length is how long it lasts if there is anything to undo.
	length func(*rand.Rand) time.Duration

	// strike does it. What it learns about the victims goes into the record; undo,
	// if there is anything to undo, is called when its time has come. One that fails halfway returns both.
	strike func(ctx context.Context, c *cluster, random *rand.Rand, record *faultRecord) (undo undo, err error)
}

type undo func(ctx context.Context) error

// part is what a fault hurts. Faults of different parts can be combined, and are then done in this order:
// servers cannot be restarted one by one while their links are cut, but while clients are in trouble.
type part int

const (
	data part = iota // what is in ZooKeeper
	clients
	servers
	links // between servers, and between a server and all clients
)

// between returns a length from a range, evenly.
func between(least, most time.Duration) func(*rand.Rand) time.Duration {
	return func(random *rand.Rand) time.Duration { return least + time.Duration(random.Int64N(int64(most-least))) }
}

// oneOf chooses.
func oneOf[T any](random *rand.Rand, all ...T) T { return all[random.IntN(len(all))] }

// faults are all that there are. What they do is told by the functions below and in the
// other files that are named fault_*.
var faults = []fault{
	{id: "N1", name: "servers killed", what: servers, length: between(500*time.Millisecond, 3*time.Second), strike: killServers},
	{id: "N2", name: "server paused", what: servers, silent: true, length: between(time.Second, 8*time.Second), strike: pauseServer},
	{id: "N3", name: "server unreachable", what: links, length: between(time.Second, 6*time.Second), strike: unplugServer},
	{id: "N4", name: "server cut off with its clients", what: links, length: between(2*time.Second, 6*time.Second), strike: cutOffServer},
	{id: "N5", name: "link between servers cut", what: links, length: between(time.Second, 6*time.Second), strike: cutLink},
	{id: "N6", name: "client cut off", what: clients, silent: true, length: sessions(0.5, 0.9, 1.1, 2, 3), strike: cutOffClient},
	{id: "N7", name: "connections reset", what: clients, strike: resetConnections},
	{id: "N8", name: "frames lost", what: clients, frames: true, length: between(500*time.Millisecond, 2*time.Second), strike: loseFrames},
	{id: "N9", name: "client killed or stopped", what: clients, silent: true, length: sessions(0.5, 1, 1.5, 2, 3), strike: haltClient},
	{id: "N10", name: "network slow", what: clients, silent: true, length: between(time.Second, 5*time.Second), strike: slowDown},
	{id: "N11", name: "servers restarted one by one, or all down", what: servers, length: sessions(1, 2, 3), strike: restartServers},
	{
		id: "N12", name: "disk full", what: servers, cannot: cannotFillDisk,
		length: between(time.Second, 4*time.Second), strike: exhaustDisk,
	},
	{id: "N13", name: "session closed by another", what: clients, strike: closeSession},
	{id: "N14", name: "vandal", what: data, length: between(200*time.Millisecond, 1500*time.Millisecond), strike: vandalise},
	{id: "N17", name: "short timeouts", what: clients, length: between(2*time.Second, 5*time.Second), strike: hurry},
	{id: "N18", name: "servers restored from a backup", what: servers, alone: true, length: between(10*time.Second, 11*time.Second), strike: restoreServers},
}

// lastFault is the id with the greatest number.
const lastFault = "N18"

// sessions returns a length of so many session timeouts.
func sessions(factors ...float64) func(*rand.Rand) time.Duration {
	return func(random *rand.Rand) time.Duration {
		return time.Duration(oneOf(random, factors...) * float64(sessionTimeout))
	}
}
