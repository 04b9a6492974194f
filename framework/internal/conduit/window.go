// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
)

// The window of a connection, in bytes. At first 512 small requests fit in, which
// is enough for one round trip in a data center.
const (
	windowAtStart = 128 << 10
	minWindow     = 16 << 10
	maxWindow     = 1 << 20
	windowStep    = 4 << 10 // by which it grows with a reply, at most

	// minCost is what a request takes of the window at least: servers spend time on
	// small requests, too.
	minCost = 256

	// unknownData and unknownList are the expected lengths of replies to such reads until
	// one has come, and again after none has come for staleAfter.
	unknownData = 32 << 10
	unknownList = 4 << 10
	staleAfter  = time.Second

	// Bounds of an OpMultiRead. Other replies wait behind the whole of its reply.
	togetherBytes = 32 << 10
	maxTogether   = 64

	// Bounds of an OpMultiRead that replaces exists, whose callers have not asked for the
	// data. It is made while a reply has maxUnasked bytes or less: 256 of data and their
	// overhead. It has few parts, because the data may have grown since.
	maxUnasked      = 256 + 96
	unaskedTogether = 16

	// patienceShare is the part of the session timeout for which an unanswered request may
	// hold back other requests before it counts as late.
	patienceShare = 6
)

// window bounds what is written to a connection and not yet answered, so that pings and
// other urgent requests do not wait behind bulk for long. A ping that is queued in the
// kernel, on the wire or at the server cannot be moved to the front. So bulk must wait in
// the client.
//
// Each request takes its own length or the expected length of its reply, whichever is
// greater. The lengths of replies are learned for each opcode. The window grows while
// replies come in time, and shrinks when they are late. It is TCP's congestion window,
// with late replies instead of lost segments as the sign of congestion.
//
// Not safe for concurrent use: conn.queue guards it.
type window struct {
	patience  time.Duration
	limit     int
	used      int
	held      bool // the writer has stopped because of the window
	shrunkAt  time.Time
	repliedAt time.Time
	replies   map[int32]*replyLength // by opcode, and existsAsData
}

// existsAsData is the opcode of an exists that is made as a read of data.
const existsAsData = -wire.OpExists

// joinedAs returns what the length of a joined read is known by.
func joinedAs(op int32) int32 {
	if op == wire.OpExists {
		return existsAsData
	}
	return op
}

type replyLength struct {
	bytes int
	seen  time.Time
}

func newWindow(timeout time.Duration) window {
	return window{patience: timeout / patienceShare, limit: windowAtStart, replies: make(map[int32]*replyLength)}
}

// cost returns what a request takes of the window.
func (w *window) cost(op int32, length int, now time.Time) int {
	return max(minCost, length, w.expected(op, now))
}

// costJoined is cost for a request that n reads of this kind share.
func (w *window) costJoined(op int32, n, length int, now time.Time) int {
	return max(minCost, length, n*w.expected(joinedAs(op), now))
}

// together returns how many reads of this kind may share a request: as many as are expected to be
// answered in togetherBytes.
func (w *window) together(op int32, now time.Time) int {
	each := w.expected(joinedAs(op), now)
	switch {
	case op != wire.OpExists:
		return max(1, min(maxTogether, togetherBytes/max(1, each)))
	case each > maxUnasked:
		return 1
	default:
		return unaskedTogether
	}
}

func (w *window) expected(op int32, now time.Time) int {
	known := w.replies[op]
	switch {
	case known == nil:
		return unknownReply(op)
	case now.Sub(known.seen) > staleAfter:
		// A burst after a pause may be of another kind.
		return max(known.bytes, unknownReply(op))
	default:
		return known.bytes
	}
}

// admits reports whether a request may be written now; oldest is when the oldest
// unanswered one was.
func (w *window) admits(cost int, oldest, now time.Time) bool {
	if w.used == 0 && now.Sub(w.repliedAt) > staleAfter {
		w.limit = min(w.limit, windowAtStart) // what was learned is forgotten
	}
	switch {
	case w.used == 0:
		return true // whatever it costs, it cannot go out with less
	case now.Sub(oldest) > w.patience:
		return false // the server is late: more would only wait there
	default:
		return w.used+cost <= w.limit
	}
}

// answered returns the cost of a request to the window, and adapts the window to how
// late the reply is.
func (w *window) answered(cost int, sent, now time.Time) {
	w.used -= cost
	w.repliedAt = now
	switch late := now.Sub(sent); {
	case late > w.patience && !sent.Before(w.shrunkAt):
		// Requests that were sent before the last change say nothing about it.
		w.limit = max(minWindow, w.limit/2)
		w.shrunkAt = now
	case late < w.patience/2 && w.held:
		// Only a window that is in use may grow, or it would be boundless by the time
		// it is needed.
		w.limit = min(maxWindow, w.limit+min(cost, windowStep))
	}
}

// learn takes the length of a reply into account for later requests of the same kind. The
// average part of an OpMultiRead counts as a reply to one read.
func (w *window) learn(op int32, length int, now time.Time) {
	known := w.replies[op]
	if known == nil {
		known = &replyLength{bytes: w.expected(op, now)}
		w.replies[op] = known
	} else {
		known.bytes = w.expected(op, now)
	}
	known.bytes = max(length, known.bytes-known.bytes/4)
	known.seen = now
}

// resumes reports whether a writer that was held back should go on. It waits until half
// of the window is free, so that what follows goes out in few writes.
func (w *window) resumes(oldest, now time.Time) bool {
	return w.held && (w.used == 0 || w.used <= w.limit/2 && now.Sub(oldest) <= w.patience)
}

// unknownReply is the expected length of a reply before any has come. Most replies have a
// length that hardly depends on what is stored.
func unknownReply(op int32) int {
	switch op {
	case wire.OpGetData, existsAsData:
		return unknownData
	case wire.OpGetACL, wire.OpGetChildren, wire.OpGetChildren2, wire.OpGetEphemerals:
		return unknownList
	default:
		return 0
	}
}
