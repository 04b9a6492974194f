// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// observed keeps what a client tells.
type observed struct {
	reader *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
}

func newObserved() *observed {
	return &observed{sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()}
}

// options make a client tell what it does.
func (o *observed) options(more ...framework.Option) []framework.Option {
	return append([]framework.Option{
		framework.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.reader))),
		framework.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(o.spans))),
	}, more...)
}

// values collects everything: a number for each instrument and set of attributes,
// written as "name{key=value,...}"; of a histogram the count.
func (o *observed) values(t *testing.T) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, o.reader.Collect(t.Context(), &all))
	values := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			add := func(set attribute.Set, v float64) {
				values[m.Name+"{"+set.Encoded(attribute.DefaultEncoder())+"}"] = v
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Count))
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Count))
				}
			default:
				require.Fail(t, "an instrument of a kind that is not in the table", "%s: %T", m.Name, m.Data)
			}
		}
	}
	return values
}

// span returns the newest span with this name.
func (o *observed) span(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	ended := o.spans.Ended()
	for i := range ended {
		if span := ended[len(ended)-1-i]; span.Name() == name {
			return span
		}
	}
	require.Fail(t, "no span "+name)
	return nil
}

func attributes(span sdktrace.ReadOnlySpan) map[string]string {
	found := map[string]string{}
	for _, kv := range span.Attributes() {
		found[string(kv.Key)] = kv.Value.String()
	}
	return found
}

// TestTelemetryOfVerbs calls each verb once and looks at the span and the
// measurement of it.
func TestTelemetryOfVerbs(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.PersistentWatches, ensemble.GetEphemerals)
		o := newObserved()
		f := zktest.Client(t, server.ConnectString(), o.options()...)
		ctx := t.Context()
		mustCreate(t, f, "/start", framework.CreatingParentsIfNeeded())
		for _, verb := range []struct {
			operation, span, errorType string
			call                       func() error
		}{
			{"create", "create znode", "", func() error {
				_, err := f.Create(ctx, "/a", []byte("secret"), framework.WithProtection())
				return err
			}},
			{"create", "create znode", "node_exists", func() error {
				_, err := f.Create(ctx, "/start", nil)
				return err
			}},
			{"get", "get data", "no_node", func() error { _, err := f.Get(ctx, "/none"); return err }},
			{"set", "set data", "bad_version", func() error {
				return f.Set(ctx, "/start", nil, framework.WithVersion(7))
			}},
			{"exists", "check existence", "", func() error { _, err := f.Exists(ctx, "/none"); return err }},
			{"children", "list children", "", func() error { _, err := f.Children(ctx, "/"); return err }},
			{"sync", "sync znode", "", func() error { return f.Sync(ctx, "/") }},
			{"transact", "transact operations", "", func() error {
				_, err := f.Transact(ctx, framework.CheckOp("/start", framework.AnyVersion))
				return err
			}},
			{"pipeline", "pipeline reads", "no_node", func() error {
				return f.Pipeline(ctx, framework.ReadData("/start", nil), framework.ReadData("/none", nil))
			}},
			{"delete", "delete znode", "no_node", func() error {
				return f.Delete(ctx, "/none", framework.Guaranteed())
			}},
			{"add watch", "add watch", "", func() error {
				w, err := f.AddWatch(ctx, "/start", framework.WatchPersistent)
				w.Cancel()
				return err
			}},
			{"get ACL", "get access control list", "", func() error { _, err := f.GetACL(ctx, "/start"); return err }},
			{"set ACL", "set access control list", "bad_version", func() error {
				return f.SetACL(ctx, "/start", zk.WorldACL(zk.PermAll), framework.WithVersion(7))
			}},
			{"ephemerals", "list ephemerals", "", func() error { _, err := f.Ephemerals(ctx, "/"); return err }},
			{"identities", "list identities", "", func() error { _, err := f.WhoAmI(ctx); return err }},
		} {
			series := "curator.client.operation.duration{curator.operation=" + verb.operation
			if verb.errorType != "" {
				series += ",error.type=" + verb.errorType
			}
			before := o.values(t)[series+"}"]
			err := verb.call()
			require.Equal(t, verb.errorType, framework.ErrorType(err), "%s: %v", verb.operation, err)
			require.InDelta(t, before+1, o.values(t)[series+"}"], 0, series)

			span := o.span(t, verb.span)
			got := attributes(span)
			require.Equal(t, verb.operation, got["curator.operation"])
			require.Equal(t, verb.errorType, got["error.type"], "%s", verb.operation)
			require.Equal(t, server.Addr(), got["server.address"]+":"+got["server.port"])
			require.Equal(t, codes.Unset, span.Status().Code, "what is asked of znodes is no failure")
			require.NotContains(t, got, "curator.path", "paths are not told unless that is asked for")
		}
		for _, span := range o.spans.Ended() {
			require.NotContains(t, fmt.Sprint(span.Attributes(), span.Events(), span.Status()), "secret")
		}
	})
}

// TestTelemetryOfRetries loses the first request of a call.
func TestTelemetryOfRetries(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		o := newObserved()
		f := n.client(t, o.options(framework.WithRetryPolicy(retry.NTimes(1, time.Second)))...)
		faultAt(n, f.Session().ID(), zkserver.LoseReply, 1, 2)
		_, err := f.Exists(t.Context(), "/")
		require.ErrorIs(t, err, framework.ErrConnectionLost)
		require.InDelta(t, 1, o.values(t)["curator.client.retries{curator.operation=exists}"], 0)
		span := o.span(t, "check existence")
		require.Len(t, span.Events(), 1)
		require.Equal(t, "retry", span.Events()[0].Name)
		require.Equal(t, "connection_lost", attributes(span)["error.type"])
		require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "connection_lost"}, span.Status())
	})
}

// TestTelemetryOfWatchesAndCleanups counts what the client has at the server, and
// what it still wants to be rid of there.
func TestTelemetryOfWatchesAndCleanups(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		o := newObserved()
		f := n.client(t, o.options()...)
		mustCreate(t, f, "/a")
		require.InDelta(t, 0, o.values(t)["curator.watch.active{}"], 0)
		one, two, three := watch(t, f, "get", "/a"), watch(t, f, "exists", "/a"), watch(t, f, "children", "/a")
		require.InDelta(t, 2, o.values(t)["curator.watch.active{}"], 0, "one server watch of each kind")
		one.Cancel()
		require.InDelta(t, 2, o.values(t)["curator.watch.active{}"], 0)
		two.Cancel()
		three.Cancel()
		require.InDelta(t, 0, o.values(t)["curator.watch.active{}"], 0)

		n.setDown(true)
		ended, end := context.WithCancel(t.Context())
		end()
		require.ErrorIs(t, f.Delete(ended, "/a", framework.Guaranteed()), framework.ErrCleanupPending)
		time.Sleep(3 * time.Second)
		require.ErrorIs(t, f.Delete(ended, "/b", framework.Guaranteed()), framework.ErrCleanupPending)
		time.Sleep(time.Second)
		synctest.Wait()
		require.InDelta(t, 2, o.values(t)["curator.cleanup.pending{}"], 0)
		require.InDelta(t, 4, o.values(t)["curator.cleanup.oldest.age{}"], 0.001)
		require.Contains(t, string(must.Get(json.Marshal(f.Health()))(t)), `"cleanupsPending":2,"oldestCleanupSeconds":4`)
		n.setDown(false)
		require.NoError(t, f.BlockUntilConnected(t.Context()))
		synctest.Wait()
		require.InDelta(t, 0, o.values(t)["curator.cleanup.pending{}"], 0)
		require.InDelta(t, 0, o.values(t)["curator.cleanup.oldest.age{}"], 0)
	})
}

func TestTelemetryPathAttributeIsOptIn(t *testing.T) {
	o := newObserved()
	f := zktest.Client(t, zktest.NewServer(t).Addr(), o.options(framework.WithPathAttribute())...)
	reports, enabled := f.Telemetry()
	require.True(t, enabled)
	require.True(t, reports.PathAttribute)
	must.Get(f.Get(t.Context(), "/zookeeper"))(t)
	require.Equal(t, "/zookeeper", attributes(o.span(t, "get data"))["curator.path"])
	for series := range o.values(t) {
		require.NotContains(t, series, "curator.path", "names of nodes make too many series")
	}
}

// TestTelemetryWithoutProvidersNothingIsTold also holds for one of the two.
func TestTelemetryWithoutProvidersNothingIsTold(t *testing.T) {
	f := unstarted(t, framework.WithPathAttribute())
	_, enabled := f.Telemetry()
	require.False(t, enabled)

	o := newObserved()
	f = zktest.Client(t, zktest.NewServer(t).Addr(), o.options()[1])
	reports, enabled := f.Telemetry()
	require.True(t, enabled)
	require.Equal(t, metricnoop.NewMeterProvider(), reports.MeterProvider)
	require.NotNil(t, reports.TracerProvider)
	require.False(t, reports.PathAttribute)
	require.Len(t, reports.Server, 2)
	must.Get(f.Exists(t.Context(), "/"))(t)
	o.span(t, "check existence")
}

func TestErrorTypes(t *testing.T) {
	require.Empty(t, framework.ErrorType(nil))
	require.Equal(t, "_OTHER", framework.ErrorType(errors.New("of somebody else")))
	require.Equal(t, "server_-6", framework.ErrorType(fmt.Errorf("wrapped: %w", framework.ServerError(-6))))
	require.Equal(t, "canceled", framework.ErrorType(&framework.OpError{Err: context.Canceled}))
	require.Equal(t, "session_expired", framework.ErrorType(&framework.LostError{Reason: framework.ReasonLeaseEnd}))
	capital := regexp.MustCompile("([a-z])([A-Z])")
	for _, k := range kinds {
		name := strings.TrimPrefix(strings.TrimPrefix(k.name, "context."), "Err")
		require.Equal(t, strings.ToLower(capital.ReplaceAllString(name, "${1}_$2")), framework.ErrorType(k.err))
	}
}
