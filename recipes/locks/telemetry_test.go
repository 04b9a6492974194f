// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// tick is how often a test looks at a number that nothing signals.
const tick = 5 * time.Millisecond

// observed keeps what the locks of a client tell.
type observed struct {
	reader *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
}

func newObserved() *observed {
	return &observed{sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()}
}

func (o *observed) options(more ...framework.Option) []framework.Option {
	return append([]framework.Option{
		framework.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.reader))),
		framework.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(o.spans))),
	}, more...)
}

// value collects and returns a number, written as "lock.held{key=value,...}"; of a
// histogram the count. What has never been measured is 0.
func (o *observed) value(t *testing.T, series string) int {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, o.reader.Collect(context.WithoutCancel(t.Context()), &all))
	values := map[string]int{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[m.Name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = int(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[m.Name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = int(p.Count)
				}
			}
		}
	}
	return values["curator."+series]
}

// awaitWaiting waits until n acquisitions of the recipe wait.
func (o *observed) awaitWaiting(t *testing.T, recipe string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return o.value(t, "lock.waiting{curator.recipe="+recipe+"}") == n }, limit, tick)
}

// acquireSpan returns the newest span of an acquisition, its attributes, and its
// events with the position.
func (o *observed) acquireSpan(t *testing.T) (map[string]string, []string) {
	t.Helper()
	ended := o.spans.Ended()
	for i := range ended {
		span := ended[len(ended)-1-i]
		if span.Name() != "acquire lock" {
			continue
		}
		attributes := map[string]string{}
		for _, kv := range span.Attributes() {
			attributes[string(kv.Key)] = kv.Value.String()
		}
		var events []string
		for _, e := range span.Events() {
			var event strings.Builder
			event.WriteString(e.Name)
			for _, kv := range e.Attributes {
				event.WriteString(" " + kv.Value.String())
			}
			events = append(events, event.String())
		}
		return attributes, events
	}
	require.Fail(t, "no span of an acquisition")
	return nil, nil
}

// TestTelemetryOfALock takes two clients through the outcomes of an acquisition.
func TestTelemetryOfALock(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		o, other := newObserved(), newObserved()
		client := zktest.Client(t, server.ConnectString(), o.options()...)
		mutex := newMutex(t, client, "/locks/seen")
		rival := newMutex(t, zktest.Client(t, server.ConnectString(), other.options()...), "/locks/seen")

		lease := acquire(t, mutex)
		require.Equal(t, 1, o.value(t, "lock.acquire.duration{curator.outcome=acquired,curator.recipe=mutex}"))
		require.Equal(t, 1, o.value(t, "lock.held{curator.recipe=mutex}"))
		attributes, events := o.acquireSpan(t)
		require.Equal(t, []string{"granted"}, events, "nobody was waited for")
		require.Equal(t, strconv.FormatInt(lease.Token(), 10), attributes["curator.fence"])
		require.Equal(t, client.Session().String(), attributes["curator.session"])
		require.Equal(t, "acquired", attributes["curator.outcome"])
		require.Equal(t, server.Addr(), attributes["server.address"]+":"+attributes["server.port"])
		require.NotContains(t, attributes, "curator.path")

		again := must.Get(mutex.Acquire(lease.Context(zktest.Context(t))))(t)
		release(t, again)
		require.Equal(t, 1, o.value(t, "lock.held{curator.recipe=mutex}"), "a re-entry is no hold of its own")

		_, err := rival.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		require.Equal(t, 1, other.value(t, "lock.acquire.duration{curator.outcome=not_acquired,curator.recipe=mutex}"))
		require.Equal(t, 0, other.value(t, "lock.waiting{curator.recipe=mutex}"))

		ctx, cancel := context.WithCancel(zktest.Context(t))
		result := acquireLater(ctx, rival)
		awaitQueue(t, mutex, 2)
		require.Eventually(t, func() bool { return other.value(t, "lock.waiting{curator.recipe=mutex}") == 1 }, limit, tick)
		cancel()
		require.ErrorIs(t, await(t, result).err, locks.ErrNotAcquired)
		require.Equal(t, 1, other.value(t,
			"lock.acquire.duration{curator.outcome=canceled,curator.recipe=mutex,error.type=canceled}"))
		require.Equal(t, 0, other.value(t, "lock.waiting{curator.recipe=mutex}"))
		_, events = other.acquireSpan(t)
		require.Equal(t, []string{"queued 1"}, events)

		release(t, lease)
		require.Equal(t, 0, o.value(t, "lock.held{curator.recipe=mutex}"))
		require.Equal(t, 1, o.value(t, "lock.hold.duration{curator.end=released,curator.recipe=mutex}"))
	})
}

// TestTelemetryOfLosses ends holds in two ways, and interrupts a wait.
func TestTelemetryOfLosses(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		admin := zktest.Client(t, server.ConnectString())
		o := newObserved()
		client, link := zktest.ClientViaProxy(t, server, o.options()...)
		mutex := newMutex(t, client, "/locks/lost")

		lease := acquire(t, mutex)
		link.Cut()
		awaitDone(t, lease.Done(), "the end of the lease")
		lost := func(reason framework.LostReason) func() bool {
			return func() bool {
				return o.value(t, "lock.lost{curator.reason="+string(reason)+",curator.recipe=mutex}") == 1
			}
		}
		require.Eventually(t, lost(framework.ReasonSuspended), limit, tick)
		require.Error(t, lease.Release(zktest.Context(t)))

		lease = acquire(t, mutex)
		require.NoError(t, admin.Delete(t.Context(), lease.Path()))
		awaitDone(t, lease.Done(), "the end of the lease")
		require.Eventually(t, lost(framework.ReasonNodeDeleted), limit, tick)
		require.Error(t, lease.Release(zktest.Context(t)))
		require.Equal(t, 2, o.value(t, "lock.hold.duration{curator.end=lost,curator.recipe=mutex}"))
		require.Equal(t, 0, o.value(t, "lock.hold.duration{curator.end=released,curator.recipe=mutex}"))
		require.Equal(t, 0, o.value(t, "lock.held{curator.recipe=mutex}"))

		holder := newMutex(t, admin, "/locks/lost")
		lease = acquire(t, holder)
		result := acquireLater(zktest.Context(t), mutex)
		require.Eventually(t, func() bool { return o.value(t, "watch.active{}") == 1 }, limit, tick, "that it waits")
		require.NoError(t, client.Sync(zktest.Context(t), "/")) // the replies to the requests that have set the watches are here
		link.Cut()
		release(t, lease)
		got := await(t, result)
		require.NoError(t, got.err)
		_, events := o.acquireSpan(t)
		require.Equal(t, []string{"queued 1", "suspended", "granted"}, events)
		release(t, got.lease)
	})
}

func TestTelemetryNamesTheRecipe(t *testing.T) {
	o := newObserved()
	client := zktest.Client(t, zktest.NewServer(t).Addr(), o.options(framework.WithPathAttribute())...)
	release(t, acquire(t, newMutex(t, client, "/locks/named", locks.WithRecipeName("report"))))
	require.Equal(t, 1, o.value(t,
		"lock.hold.duration{curator.end=released,curator.path=/locks/named,curator.recipe=report}"))

	_, err := locks.NewInterProcessMutex(client, "/a", locks.WithRecipeName(""))
	require.ErrorContains(t, err, "recipe name")
}

// TestTelemetryWaitingForATurnIsWaiting: of two that want the last permit of a semaphore one waits
// for it and one for its turn.
func TestTelemetryWaitingForATurnIsWaiting(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		o := newObserved()
		client := zktest.Client(t, server.ConnectString(), o.options()...)
		s := newSemaphore(t, client, "/semaphores/s", locks.FixedLeases(1))
		lease := acquire(t, s)
		waiting := make(chan outcome, 2)
		for n := range 2 {
			go func() {
				lease, err := s.Acquire(zktest.Context(t))
				waiting <- outcome{lease, err}
			}()
			require.Eventually(t, func() bool {
				return o.value(t, "lock.waiting{curator.recipe=semaphore}") == n+1
			}, limit, tick)
		}
		require.Equal(t, 1, o.value(t, "lock.held{curator.recipe=semaphore}"), "a turn is no permit")
		release(t, lease)
		for range 2 {
			release(t, await(t, waiting).lease)
		}
		// A span may have no event "queued": the release may come before the first waiter has looked.
		require.Equal(t, 0, o.value(t, "lock.waiting{curator.recipe=semaphore}"))
		require.Equal(t, 0, o.value(t, "lock.held{curator.recipe=semaphore}"))
		require.Equal(t, 3, o.value(t, "lock.hold.duration{curator.end=released,curator.recipe=semaphore}"))
		require.Equal(t, 3, o.value(t, "lock.acquire.duration{curator.outcome=acquired,curator.recipe=semaphore}"))
	})
}

// TestTelemetryCountersOfALockBeginAtZero, with a series for each reason: an increase sees the
// first loss of a process. Every scope names the version of the module.
func TestTelemetryCountersOfALockBeginAtZero(t *testing.T) {
	o := newObserved()
	client := zktest.Client(t, zktest.NewServer(t).Addr(), o.options()...)
	newMutex(t, client, "/locks/seen")
	newSemaphore(t, client, "/semaphores/seen", locks.FixedLeases(2))
	var all metricdata.ResourceMetrics
	require.NoError(t, o.reader.Collect(t.Context(), &all))
	series := make(map[string]int64)
	for _, scope := range all.ScopeMetrics {
		require.NotEmpty(t, scope.Scope.Version, scope.Scope.Name)
		for _, m := range scope.Metrics {
			data, ok := m.Data.(metricdata.Sum[int64])
			if !ok || scope.Scope.Name != "github.com/gocurator/curator/recipes/locks" {
				continue
			}
			for _, p := range data.DataPoints {
				series[m.Name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = p.Value
			}
		}
	}
	want := make(map[string]int64)
	for _, recipe := range []string{"curator.recipe=mutex", "curator.recipe=semaphore"} {
		want["curator.lock.held{"+recipe+"}"] = 0
		want["curator.lock.waiting{"+recipe+"}"] = 0
		for _, reason := range []string{"suspended", "lease_end", "session_expired", "node_deleted", "auth_failed", "closed", "max_hold"} {
			want["curator.lock.lost{curator.reason="+reason+","+recipe+"}"] = 0
		}
	}
	require.Equal(t, want, series)
	for _, span := range o.spans.Ended() {
		require.NotEmpty(t, span.InstrumentationScope().Version)
	}
}

// TestTelemetryPanicEndsTheAcquisition: when user code panics in the middle of a wait, the span ends
// and the acquisition no longer counts as waiting. The caller gets the panic, and the lock
// is free.
func TestTelemetryPanicEndsTheAcquisition(t *testing.T) {
	for _, test := range []struct {
		recipe, place string
		between       int // waiters ahead; a semaphore asks for its maximum again after the wait for a turn
	}{{"custom", "GetsTheLock", 0}, {"semaphore", "MaxLeases", 1}} {
		t.Run(test.recipe, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				o := newObserved()
				waiting := "lock.waiting{curator.recipe=" + test.recipe + "}"
				lock, armed := panicking(t, zktest.Client(t, w.server, o.options()...), test.place)
				lease := acquire(t, lock)
				var ahead []<-chan outcome
				for range test.between {
					ahead = append(ahead, acquireLater(context.Background(), lock))
					time.Sleep(time.Second)
				}
				panics := acquireRecovering(lock)
				time.Sleep(time.Second)
				require.Equal(t, 1+test.between, o.value(t, waiting))
				armed.Store(true)
				release(t, lease)
				require.ErrorContains(t, await(t, panics).err, "panicked")
				for _, result := range ahead {
					release(t, requireAtOnce(t, result))
				}

				require.Zero(t, o.value(t, waiting))
				require.Equal(t, 1, o.value(t,
					"lock.acquire.duration{curator.outcome=error,curator.recipe="+test.recipe+",error.type=panic}"))
				require.Len(t, o.spans.Started(), len(o.spans.Ended()), "every span has ended")
				release(t, requireAtOnce(t, acquireLater(context.Background(), lock)))
			})
		})
	}
}

// panicking returns a lock with user code that panics in this place, once it is armed.
func panicking(t *testing.T, client *framework.Framework, place string) (lock locks.InterProcessLock, armed *atomic.Bool) {
	t.Helper()
	i := intruder{
		StandardLockInternalsDriver: locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter},
		place:                       place, does: func() { panic("the user's own fault") }, armed: new(atomic.Bool),
	}
	var err error
	if place == "MaxLeases" {
		lock, err = locks.NewInterProcessSemaphoreV2(client, "/lock", i)
	} else {
		lock, err = locks.NewLockInternals(client, i, "/lock", "lock-", 1)
	}
	require.NoError(t, err)
	return lock, i.armed
}

// TestTelemetryReleaseBelongsToItsCaller: its request is a child of the span in the caller's context,
// whether or not that context can end.
func TestTelemetryReleaseBelongsToItsCaller(t *testing.T) {
	o := newObserved()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(o.spans)).Tracer("caller")
	mutex := newMutex(t, zktest.Client(t, zktest.NewServer(t), o.options()...), "/lock")
	for name, ctx := range map[string]context.Context{
		"can end": zktest.Context(t), "cannot end": context.WithoutCancel(t.Context()),
	} {
		lease := acquire(t, mutex)
		ctx, caller := tracer.Start(ctx, name)
		require.NoError(t, lease.Release(ctx))
		caller.End()
		children := 0
		for _, span := range o.spans.Ended() {
			if span.Parent().SpanID() == caller.SpanContext().SpanID() {
				children++
			}
		}
		require.Equal(t, 1, children, "%s: the deletion", name)
	}
}
