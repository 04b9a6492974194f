// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// scenario is a load that peers are compared under.
type scenario struct {
	kind string
	load load

	// metrics are what of the result is compared. A latency is better when it is less.
	metrics []metric
}

type metric struct {
	name    string
	latency bool
	of      func(*result) float64
}

var (
	turnsPerSecond = metric{"turns_per_s", false, (*result).turnsPerSecond}
	turnMedian     = metric{"p50_us", true, func(r *result) float64 { return r.TurnP50 }}
	waitTail       = metric{"wait_p99_us", true, func(r *result) float64 { return r.WaitP99 }}
	requests       = metric{"requests_per_turn", true, func(r *result) float64 { return r.Requests }}
	notifications  = metric{"notifications_per_turn", true, func(r *result) float64 { return r.Notifications }}
	clientCPU      = metric{"client_cpu_us_per_turn", true, func(r *result) float64 { return r.CPU }}
	allocs         = metric{"allocs_per_turn", true, func(r *result) float64 { return r.Allocs }}
	heapPerWaiter  = metric{"heap_bytes_per_waiter", true, func(r *result) float64 { return r.Heap }}
	handMedian     = metric{"handover_p50_us", true, func(r *result) float64 { return r.HandP50 }}
	handTail       = metric{"handover_p99_us", true, func(r *result) float64 { return r.HandP99 }}
	changeRequests = metric{"requests_per_change", true, func(r *result) float64 { return r.ChangeRequests }}
	woken          = metric{"woken_per_change", true, func(r *result) float64 { return r.Woken }}
	bytesPerTurn   = metric{"bytes_per_turn", true, func(r *result) float64 { return r.Bytes }}
)

var scenarios = append([]scenario{
	{uncontended, load{Clients: 1, Goroutines: 1}, []metric{turnMedian, requests, clientCPU, allocs}},
	{contended, load{Clients: 8, Goroutines: 1}, []metric{turnsPerSecond, waitTail, requests, notifications, clientCPU, allocs}},
	{herd, load{Clients: 2, Goroutines: 1}, herdMetrics},
	{herd, load{Clients: 32, Goroutines: 1}, herdMetrics},
	{herd, load{Clients: 128, Goroutines: 1}, herdMetrics},
	{herd, load{Clients: 256, Goroutines: 1}, herdMetrics},
	{oneProcess, load{Clients: 1, Goroutines: 8}, []metric{turnsPerSecond, requests, clientCPU, allocs}},
	{oneProcess, load{Clients: 1, Goroutines: 64}, []metric{turnsPerSecond, requests, clientCPU, allocs}},
	{queue, load{Clients: 10, Goroutines: 100, Queue: true}, queueMetrics},
	{longQueue, load{Clients: 10, Goroutines: 500, Queue: true}, queueMetrics},
	{longQueue, load{Clients: 1, Goroutines: 1000, Queue: true}, queueMetrics},
	{longQueue, load{Clients: 1, Goroutines: 5000, Queue: true}, queueMetrics},
	{readWrite, load{Clients: 8, Goroutines: 1, Readers: 8}, []metric{turnsPerSecond, waitTail, clientCPU}},
	{semaphore, load{Clients: 8, Goroutines: 1, Leases: 3}, []metric{turnsPerSecond, waitTail, clientCPU}},
	{election, load{Clients: 8, Goroutines: 1, Change: byResigning}, changeMetrics},
	{electionKilled, load{Clients: 8, Goroutines: 1, Change: byDying}, changeMetrics[:2]}, // waiting for candidates to come back takes requests, too
	{electorate, load{Clients: 10, Goroutines: 100, Queue: true}, []metric{turnsPerSecond, requests, handMedian, changeRequests, woken}},
}, verbScenarios()...)

var herdMetrics = []metric{requests, notifications}

var changeMetrics = []metric{handMedian, handTail, requests, notifications, clientCPU}

var queueMetrics = []metric{turnsPerSecond, requests, notifications, bytesPerTurn, clientCPU, heapPerWaiter}

// selectScenarios returns those of the kinds, comma-separated; all for "".
func selectScenarios(kinds string, duration time.Duration) ([]scenario, error) {
	var chosen []scenario
	for _, s := range scenarios {
		if kinds == "" || slices.Contains(strings.Split(kinds, ","), s.kind) {
			s.load.Duration = duration
			chosen = append(chosen, s)
		}
	}
	for kind := range strings.SplitSeq(kinds, ",") {
		known := func(s scenario) bool { return s.kind == kind }
		if kind != "" && !slices.ContainsFunc(scenarios, known) {
			return nil, fmt.Errorf("scenario %q, expected one of %s", kind, scenarioNames())
		}
	}
	return chosen, nil
}

// scenarioNames are the kinds, each once.
func scenarioNames() string {
	var names []string
	for _, s := range scenarios {
		names = append(names, s.kind)
	}
	return strings.Join(slices.Compact(names), ", ")
}

func (s scenario) String() string {
	return fmt.Sprintf("scenario=%s clients=%d goroutines=%d", s.kind, s.load.Clients, s.load.Goroutines)
}

// peersOf returns those that have a part in the scenario.
func (s scenario) peersOf(chosen []peer) []peer {
	var of []peer
	for _, p := range chosen {
		if slices.Contains(p.kinds, s.kind) {
			of = append(of, p)
		}
	}
	return of
}
