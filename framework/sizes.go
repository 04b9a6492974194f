// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// Sizes are the largest that a client has met since it was made. A server cuts the connection of a request above its
// jute.maxbuffer, and clients in Java do so with a reply.
type Sizes struct {
	Limit       int   // of a request in bytes: [WithMaxRequestSize]
	Request     int   // bytes
	Reply       int   // bytes, such as of a large znode, or of a folder with many children
	Children    int   // of one folder, in a list
	Transaction int   // operations
	Warnings    int64 // requests and replies above three quarters of Limit
}

// sizes are Sizes that grow.
type sizes struct {
	request, reply, children, transaction, warnings atomic.Int64

	logged atomic.Pointer[time.Time] // when a warning was logged last, nil before the first
}

// logSizesEvery bounds the log of a client that often has large requests.
const logSizesEvery = 10 * time.Minute

func raise(to *atomic.Int64, n int) {
	have := to.Load()
	for int64(n) > have && !to.CompareAndSwap(have, int64(n)) {
		have = to.Load()
	}
}

func (s *sizes) snapshot(limit int) Sizes {
	return Sizes{
		Limit: limit, Request: int(s.request.Load()), Reply: int(s.reply.Load()),
		Children: int(s.children.Load()), Transaction: int(s.transaction.Load()), Warnings: s.warnings.Load(),
	}
}

// note takes the sizes of a call that was answered. Before a znode or a folder cannot be written or read any more, it warns.
func (s *sizes) note(ctx context.Context, cfg *config, to *telemetry, c *call, reply conduit.Reply) {
	request, answer, children := wire.RequestHeader+len(c.body), wire.ReplyHeader+len(reply.Body), -1
	if c.code == wire.OpGetChildren2 && len(reply.Body) >= wire.LengthSize {
		children = int(int32(binary.BigEndian.Uint32(reply.Body))) //nolint:gosec // the length of the list, as the server writes it
	}
	raise(&s.request, request)
	raise(&s.reply, answer)
	raise(&s.children, children)
	raise(&s.transaction, int(c.length))
	isNear := max(request, answer) > cfg.MaxRequest/4*3
	to.sized(ctx, c, request, answer, children, isNear)
	if !isNear {
		return
	}
	s.warnings.Add(1)
	now, last := time.Now(), s.logged.Load()
	if (last == nil || now.Sub(*last) >= logSizesEvery) && s.logged.CompareAndSwap(last, &now) {
		cfg.Logger.Warn("a request or a reply is near the limit: divide the znode or the folder", logPath, c.path, string(keyOperation), c.name,
			"request", request, "reply", answer, "limit", cfg.MaxRequest)
	}
}
