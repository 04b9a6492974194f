// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// tableSpec is a table of a document that -update writes: rows for each scenario with the medians of
// the metrics, a column for each peer.
type tableSpec struct {
	scenarios []string
	peers     []string
	three     bool     // of three servers that force to disk; otherwise of one that does not
	metrics   []metric // nil for the first of the scenario
}

// tables are those that documents may ask for, by a line such as <!-- bench: locks --> before the
// table and <!-- bench end --> after it.
var tables = map[string]interface {
	table(all []*measured) string // "" if nothing of it was measured
}{
	"locks": tableSpec{
		scenarios: []string{uncontended, contended, oneProcess, queue},
		peers:     []string{"self", "self-handoff", "curator", "zklock", "kazoo", "raw"},
	},
	"verbs": tableSpec{scenarios: verbs, peers: []string{"self-verbs", "raw-verbs", "java-verbs"}},
	"three servers": tableSpec{
		scenarios: []string{uncontended, contended, oneProcess, queue, readWrite, semaphore},
		peers:     []string{"self", "curator", "zklock", "raw"},
		three:     true,
	},
	"long queues": tableSpec{
		scenarios: []string{queue, longQueue},
		peers:     []string{"self", "zklock"},
		metrics:   []metric{turnsPerSecond, requests, bytesPerTurn, heapPerWaiter},
	},
	"requests": requestTable{uncontended, contended, oneProcess, queue, readWrite, semaphore},
}

const (
	tableBegin = "<!-- bench: "
	tableEnd   = "<!-- bench end -->"
)

// titles are the heads of columns, where the name of the peer does not say enough.
var titles = map[string]string{
	"self": "here", "self-verbs": "here", "self-handoff": "here, `WithLocalHandoff(100)`",
	"curator": "Curator 5.4", "zklock": "zk.Lock", "kazoo": "kazoo 2.8", "raw": "bare create and delete",
	"raw-verbs": "go-zookeeper", "java-verbs": "ZooKeeper's Java client, asynchronous",
}

// rowTitles are the heads of rows for a metric that is not the first of its scenario.
var rowTitles = map[string]string{
	requests.name:      "requests for a turn",
	bytesPerTurn.name:  "bytes for a turn, both ways",
	heapPerWaiter.name: "heap for a waiter, in bytes",
}

// update replaces the tables of a document that were measured.
func update(file string, all []*measured) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	updated, err := withTables(string(text), all)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(updated), 0o644)
}

// withTables returns the text of a document. It replaces the tables that have figures in all, and
// keeps the others. A table with fewer figures than before is kept, too.
func withTables(text string, all []*measured) (string, error) {
	var b strings.Builder
	updated := false
	for {
		before, rest, more := strings.Cut(text, tableBegin)
		b.WriteString(before)
		if !more {
			break
		}
		name, rest, named := strings.Cut(rest, " -->\n")
		spec, known := tables[name]
		old, after, ended := strings.Cut(rest, tableEnd)
		if !named || !known || !ended {
			return "", fmt.Errorf("table %q: expected the name of a table, and %s after it", name, tableEnd)
		}
		table := spec.table(all)
		if strings.Count(table, "|") < strings.Count(old, "|") {
			table = "" // of a part of its scenarios or peers
		}
		updated = updated || table != ""
		b.WriteString(tableBegin + name + " -->\n" + cmp.Or(table, old) + tableEnd)
		text = after
	}
	if !updated {
		return "", fmt.Errorf("no table was measured, expected a line such as %slocks --> and all of its scenarios and peers", tableBegin)
	}
	return b.String(), nil
}

// table is in Markdown, with empty lines around it, or "" if nothing of it was measured. Peers that
// were not measured have no column.
func (spec tableSpec) table(all []*measured) string {
	of := slices.DeleteFunc(slices.Clone(all), func(m *measured) bool {
		there := m.Servers == 1 && !m.Fsync
		if spec.three {
			there = m.Servers == 3 && m.Fsync
		}
		counted := len(m.byType()) > 0 // which takes time, and for which the others need not be there
		return !there || counted || !slices.Contains(spec.scenarios, m.Scenario) || !slices.Contains(spec.peers, m.Peer)
	})
	peers := slices.DeleteFunc(slices.Clone(spec.peers), func(peer string) bool {
		return !slices.ContainsFunc(of, func(m *measured) bool { return m.Peer == peer })
	})
	if len(of) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n| |")
	for _, peer := range peers {
		b.WriteString(" " + cmp.Or(titles[peer], peer) + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", 1+len(peers)) + "\n")
	byScenario(of, func(measurements []*measured) {
		metrics := spec.metrics
		if metrics == nil {
			metrics = measurements[0].scenario.metrics[:1]
		}
		for i, metric := range metrics {
			label := measurements[0].scenario.label()
			if i > 0 {
				label = rowTitles[metric.name]
			}
			b.WriteString("| " + label + " |")
			for _, peer := range peers {
				cell := ""
				if i := slices.IndexFunc(measurements, func(m *measured) bool { return m.Peer == peer }); i >= 0 {
					cell = measurements[i].cell(metric)
				}
				b.WriteString(" " + cell + " |")
			}
			b.WriteString("\n")
		}
	})
	return b.String() + "\n"
}

// cell is the median of a metric, with its unit unless the title of the row names it.
func (m *measured) cell(of metric) string {
	v := median(m.values(of))
	switch {
	case rowTitles[of.name] != "" && v < 100:
		return number(v)
	case rowTitles[of.name] != "":
		return grouped(v)
	case of.latency:
		return grouped(v) + " µs"
	default:
		return grouped(v) + "/s"
	}
}

// grouped is a number with commas between thousands.
func grouped(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// label says what a scenario is, in a row of a table.
func (s scenario) label() string {
	goroutines := "1 goroutine"
	if s.load.Goroutines > 1 {
		goroutines = grouped(float64(s.load.Goroutines)) + " goroutines"
	}
	switch {
	case s.kind == uncontended:
		return "a turn of one client alone"
	case s.kind == contended:
		return fmt.Sprintf("turns of %d clients", s.load.Clients)
	case s.kind == oneProcess:
		return fmt.Sprintf("turns of %s of one client", goroutines)
	case s.kind == queue || s.kind == longQueue:
		of := "one client"
		if s.load.Clients > 1 {
			of = fmt.Sprintf("%d clients", s.load.Clients)
		}
		return fmt.Sprintf("turns of %s waiters of %s", grouped(float64(s.load.Clients*s.load.Goroutines)), of)
	case s.kind == readWrite:
		return fmt.Sprintf("turns of %d clients, %d of ten to read", s.load.Clients, s.load.Readers)
	case s.kind == semaphore:
		return fmt.Sprintf("turns of %d clients with %d leases", s.load.Clients, s.load.Leases)
	case isBulk(s.kind):
		return fmt.Sprintf("%s of %s paths", s.kind, grouped(float64(s.load.Paths)))
	default:
		return s.kind + ", " + goroutines
	}
}
