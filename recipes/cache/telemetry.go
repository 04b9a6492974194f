// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// keyEvent is an attribute of this package; "Metrics" in doc.go has the table.
const keyEvent = attribute.Key("curator.event")

// events are the values of curator.event.
var events = map[EventType]attribute.KeyValue{
	NodeCreated: keyEvent.String("node_created"), NodeChanged: keyEvent.String("node_changed"),
	NodeDeleted: keyEvent.String("node_deleted"), Initialized: keyEvent.String("initialized"),
}

// telemetry measures one cache. Only the engine calls its methods.
type telemetry struct {
	events, nodes, unreadable *instruments.Count
	resync                    *instruments.Histogram

	inPicture int64 // znodes
}

func newTelemetry(client *framework.Framework, path string) (*telemetry, error) {
	s := instruments.New(client, "cache", path)
	t := &telemetry{
		events: s.Counter("curator.cache.events", "{event}", "Changes of the pictures of caches.", slices.Collect(maps.Values(events))...),
		nodes:  s.UpDown("curator.cache.nodes", "{znode}", "Znodes in the pictures of caches."),
		unreadable: s.Counter("curator.cache.unreadable", "{read}",
			"Reads of znodes that were refused or could not be understood."),
		resync: s.Histogram("curator.cache.resync.duration",
			"Time to compare a picture with the whole tree, after a start or a gap in the events."),
	}
	return t, s.Err()
}

func (t *telemetry) event(event EventType) {
	t.events.Add(1, events[event])
	switch event {
	case NodeCreated:
		t.count(1)
	case NodeDeleted:
		t.count(-1)
	default:
	}
}

func (t *telemetry) count(n int64) {
	t.inPicture += n
	t.nodes.Add(n)
}

func (t *telemetry) resynced(began time.Time) {
	t.resync.Record(context.Background(), time.Since(began))
}

// ended subtracts the znodes of a cache that has ended from the sum of all caches.
func (t *telemetry) ended() { t.count(-t.inPicture) }
