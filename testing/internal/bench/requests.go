// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/testing/zkserver"
)

// requestCost is what the requests of one type take in a turn.
type requestCost struct {
	PerTurn float64 `json:"per_turn"`
	Mean    float64 `json:"mean_us"` // from the write of one to its reply, in microseconds
}

// tap counts the requests of the connections that it dials. It is nil unless -requests asks for it.
type tap struct {
	mu   sync.Mutex
	sums map[zkserver.OpCode]requestSum
}

type requestSum struct {
	n    int
	took time.Duration
}

func newTap(wanted bool) *tap {
	if !wanted {
		return nil
	}
	return &tap{sums: make(map[zkserver.OpCode]requestSum)}
}

// dial is a framework.Dialer.
func (t *tap) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &tappedConn{Conn: conn, tap: t, underWay: make(map[int32]sentRequest)}, nil
}

// take returns the requests since the last call, for each of so many turns, and forgets them.
func (t *tap) take(turns int) map[string]requestCost {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer clear(t.sums)
	if turns == 0 {
		return nil // those who follow something take no turns
	}
	costs := make(map[string]requestCost)
	for op, sum := range t.sums {
		costs[op.String()] = requestCost{float64(sum.n) / float64(turns), microseconds(sum.took) / float64(sum.n)}
	}
	return costs
}

func (t *tap) add(op zkserver.OpCode, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.sums[op]
	t.sums[op] = requestSum{sum.n + 1, sum.took + took}
}

// tappedConn reads along on a connection of a client.
type tappedConn struct {
	net.Conn
	tap *tap

	mu             sync.Mutex // guards what follows
	sent, received headers
	underWay       map[int32]sentRequest // by xid
}

type sentRequest struct {
	op zkserver.OpCode
	at time.Time
}

func (c *tappedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	now := time.Now()
	c.sent.each(p, func(xid, op int32) {
		if op := zkserver.OpCode(op); op != zkserver.OpPing { // all pings have one xid
			c.underWay[xid] = sentRequest{op, now}
		}
	})
	c.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *tappedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received.each(p[:n], func(xid, _ int32) {
		if sent, ok := c.underWay[xid]; ok {
			delete(c.underWay, xid)
			c.tap.add(sent.op, time.Since(sent.at))
		}
	})
	return n, err
}

// headers finds the frames of one direction.
type headers struct {
	frames int
	head   []byte // of the frame that comes: its length and its first eight bytes
	left   int    // bytes of the frame behind its head
}

// each calls found with the first two numbers of each frame whose head ends in p. It skips the
// handshake.
func (h *headers) each(p []byte, found func(first, second int32)) {
	const length, size = 4, 12
	for len(p) > 0 {
		if h.left > 0 {
			n := min(h.left, len(p))
			h.left, p = h.left-n, p[n:]
			continue
		}
		n := min(size-len(h.head), len(p))
		h.head, p = append(h.head, p[:n]...), p[n:]
		if len(h.head) < size {
			return
		}
		if h.frames++; h.frames > 1 {
			found(int32(binary.BigEndian.Uint32(h.head[length:])), int32(binary.BigEndian.Uint32(h.head[2*length:])))
		}
		h.left = int(binary.BigEndian.Uint32(h.head)) - (size - length)
		h.head = h.head[:0]
	}
}

// requestTable is a table of a document, with a row for each of the scenarios: what the requests of a turn are.
type requestTable []string

// fewest is how many requests of a type a turn must have to be worth telling.
const fewest = 0.01

func (scenarios requestTable) table(all []*measured) string {
	var b strings.Builder
	for _, m := range all {
		byType := m.byType()
		if len(byType) == 0 || !slices.Contains(scenarios, m.Scenario) {
			continue
		}
		var cells []string
		for _, op := range slices.Sorted(maps.Keys(byType)) {
			if cost := byType[op]; cost.PerTurn >= fewest {
				cells = append(cells, fmt.Sprintf("%.2f %s of %s µs", cost.PerTurn, op, grouped(cost.Mean)))
			}
		}
		turn := median(m.values(turnMedian))
		fmt.Fprintf(&b, "| %s | %s µs | %s | %s µs |\n",
			m.scenario.label(), grouped(turn), strings.Join(cells, ", "), grouped(median(m.values(clientCPU))))
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n| | a turn, median | its requests, and how long each is under way | processor time of the clients |\n|---|---|---|---|\n" + b.String() + "\n"
}

// byType is the mean of the rounds.
func (m *measured) byType() map[string]requestCost {
	mean := make(map[string]requestCost)
	rounds := float64(len(m.Rounds))
	for _, r := range m.Rounds {
		for op, cost := range r.ByType {
			sum := mean[op]
			mean[op] = requestCost{sum.PerTurn + cost.PerTurn/rounds, sum.Mean + cost.Mean/rounds}
		}
	}
	return mean
}
