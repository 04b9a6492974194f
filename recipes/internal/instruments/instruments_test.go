// SPDX-License-Identifier: Apache-2.0

package instruments_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/internal/instruments"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

var errRefused = errors.New("refused")

// refusing is a provider whose meters make no instruments for recipes.
type refusing struct{ noop.MeterProvider }

func (p refusing) Meter(scope string, opts ...metric.MeterOption) metric.Meter {
	if strings.Contains(scope, "/recipes/") {
		return refusingMeter{}
	}
	return p.MeterProvider.Meter(scope, opts...)
}

type refusingMeter struct{ noop.Meter }

func (refusingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errRefused
}

func (refusingMeter) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return nil, errRefused
}

func (refusingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, errRefused
}

// TestSetThatCannotMakeInstruments: what it makes does nothing, and Err says why.
func TestSetThatCannotMakeInstruments(t *testing.T) {
	s := instruments.New(newClient(t, framework.WithMeterProvider(refusing{})), "recipe", "/path")
	use(s)
	require.ErrorIs(t, s.Err(), errRefused)
}

// TestSetWithoutAProvider: it is nil, and so is what it makes.
func TestSetWithoutAProvider(t *testing.T) {
	s := instruments.New(newClient(t), "recipe", "/path")
	require.Nil(t, s)
	use(s)
	require.NoError(t, s.Err())
	require.NoError(t, must.Get(s.Observe("age", "", func() time.Duration { return 0 }))(t)())
}

func newClient(t *testing.T, opts ...framework.Option) *framework.Framework {
	t.Helper()
	client := must.Get(framework.New("127.0.0.1:1", opts...))(t)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func use(s *instruments.Set) {
	s.Counter("counter", "{event}", "").Add(1)
	s.UpDown("level", "{node}", "").Add(-1)
	s.Histogram("duration", "").Record(context.Background(), time.Second)
}
