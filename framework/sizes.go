// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

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

// measure takes the sizes of a call that was answered. Before a znode or a folder cannot be written or read any more, it warns.
func (r *requests) measure(ctx context.Context, c *call, reply conduit.Reply) {
	request, answer, children := wire.RequestHeader+len(c.body), wire.ReplyHeader+len(reply.Body), -1
	if c.code == wire.OpGetChildren2 && len(reply.Body) >= wire.LengthSize {
		children = int(int32(binary.BigEndian.Uint32(reply.Body))) //nolint:gosec // the length of the list, as the server writes it
	}
	raise(&r.sizes.request, request)
	raise(&r.sizes.reply, answer)
	raise(&r.sizes.children, children)
	raise(&r.sizes.transaction, int(c.length))
	isNear := max(request, answer) > r.cfg.MaxRequest/4*3
	r.telemetry.sized(ctx, c, request, answer, children, isNear)
	if !isNear {
		return
	}
	r.sizes.warnings.Add(1)
	now, last := time.Now(), r.sizes.logged.Load()
	if (last == nil || now.Sub(*last) >= logSizesEvery) && r.sizes.logged.CompareAndSwap(last, &now) {
		r.cfg.Logger.Warn("a request or a reply is near the limit: divide the znode or the folder", logPath, c.path, string(keyOperation), c.name,
			"request", request, "reply", answer, "limit", r.cfg.MaxRequest)
	}
}

// sizeInstruments are of each call, not of each verb: a pipeline has many.
type sizeInstruments struct {
	request, reply, children, transaction metric.Int64Histogram
	warnings                              metric.Int64Counter

	of map[string]metric.MeasurementOption // by the name of an operation
}

func newSizeInstruments(meter metric.Meter) (s sizeInstruments, errs [5]error) {
	bytes := metric.WithExplicitBucketBoundaries(128, 1<<10, 8<<10, 64<<10, 256<<10, 512<<10, 768<<10, 1<<20, 4<<20, 16<<20)
	s.request, errs[0] = meter.Int64Histogram("curator.client.request.size",
		metric.WithUnit("By"), metric.WithDescription("Sizes of requests."), bytes)
	s.reply, errs[1] = meter.Int64Histogram("curator.client.response.size",
		metric.WithUnit("By"), metric.WithDescription("Sizes of replies."), bytes)
	s.children, errs[2] = meter.Int64Histogram("curator.client.children",
		metric.WithUnit("{znode}"), metric.WithDescription("Children of the folders that were listed."),
		metric.WithExplicitBucketBoundaries(1, 10, 100, 1000, 5000, 10_000, 50_000, 100_000))
	s.transaction, errs[3] = meter.Int64Histogram("curator.client.transaction.operations",
		metric.WithUnit("{operation}"), metric.WithDescription("Operations of transactions."),
		metric.WithExplicitBucketBoundaries(1, 2, 5, 10, 50, 100, 500, 1000, 5000))
	s.warnings, errs[4] = meter.Int64Counter("curator.client.size.warnings",
		metric.WithUnit("{message}"), metric.WithDescription("Requests and replies above three quarters of the limit of a request."))
	s.of = make(map[string]metric.MeasurementOption)
	for _, op := range measures {
		s.of[op.name] = metric.WithAttributeSet(attribute.NewSet(keyOperation.String(op.name)))
	}
	return s, errs
}

func (t *telemetry) sized(ctx context.Context, c *call, request, reply, children int, isNear bool) {
	if t == nil {
		return
	}
	of := t.sizes.of[c.name]
	t.sizes.request.Record(ctx, int64(request), of)
	t.sizes.reply.Record(ctx, int64(reply), of)
	if children >= 0 {
		t.sizes.children.Record(ctx, int64(children))
	}
	if c.length > 0 {
		t.sizes.transaction.Record(ctx, int64(c.length))
	}
	if isNear {
		t.sizes.warnings.Add(ctx, 1, of)
	}
}
