// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"bytes"
	"sync"
	"time"
)

// direction is one of the two of a link.
type direction struct{ from, to *Host }

// link is one direction of a link that is not, or was not, simply up.
type link struct {
	cut   bool
	delay time.Duration

	waiting chan packet // on their way; made with the first delay
	stop    chan struct{}
	once    sync.Once
}

// packet is a frame that is on its way until due.
type packet struct {
	frame []byte
	due   time.Time
}

// maxWaiting bounds how many packets are on their way in one direction. What comes on top of that is lost, as on a real line.
const maxWaiting = 4096

// link returns the link of a direction; callers hold mu.
func (n *Network) link(d direction) *link {
	l := n.links[d]
	if l == nil {
		l = &link{waiting: make(chan packet, maxWaiting), stop: make(chan struct{})}
		n.links[d] = l
	}
	return l
}

// The parts of a frame, in bytes: the header of virtio_net.h, then Ethernet's, then IPv4's, in which the destination is at 16.
const (
	destinationAt = 10 + 14 + 16
	maxFrame      = 10 + 14 + 1<<16
)

// forward hands over what the host sends, until the network is closed.
func (h *Host) forward() {
	frame := make([]byte, maxFrame)
	for {
		n, err := h.port.Read(frame)
		if err != nil {
			return // closed
		}
		h.network.hand(h, frame[:n])
	}
}

// hand hands a frame to its destination, now or later or never.
func (n *Network) hand(from *Host, frame []byte) {
	if len(frame) < destinationAt+4 {
		return
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	to := n.hosts[frame[destinationAt+3]]
	if to == nil {
		return
	}
	d := direction{from, to}
	switch l := n.links[d]; {
	case l == nil:
		to.put(frame)
	case l.cut:
	case l.delay > 0:
		l.once.Do(func() { n.ports.Go(func() { n.transmit(d, l) }) })
		select {
		case l.waiting <- packet{bytes.Clone(frame), time.Now().Add(l.delay)}:
		default: // lost
		}
	default:
		to.put(frame)
	}
}

// transmit hands over delayed packets when they are due, unless the link is cut by then.
func (n *Network) transmit(d direction, l *link) {
	for {
		select {
		case p := <-l.waiting:
			select {
			case <-time.After(time.Until(p.due)):
			case <-l.stop:
				return
			}
			n.mu.RLock()
			if !n.closed && !l.cut {
				d.to.put(p.frame)
			}
			n.mu.RUnlock()
		case <-l.stop:
			return
		}
	}
}

// put gives a frame to the host. Packets beyond its capacity are lost, as on any network.
func (h *Host) put(frame []byte) { _, _ = h.port.Write(frame) }
