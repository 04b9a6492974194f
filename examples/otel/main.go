// SPDX-License-Identifier: Apache-2.0

// Command otel takes turns at a lock and sends metrics and traces of it to an OpenTelemetry
// collector:
//
//	go run ./examples/devserver &      # in the root of the repository
//	cd examples/otel
//	OTEL_METRIC_EXPORT_INTERVAL=10000 go run . -otlp http://127.0.0.1:4318
//
// In this folder, collector.yaml is a configuration for the collector, which gives the metrics
// to Prometheus; rules.yaml has two alerts for Prometheus, and dashboard.json is a dashboard for
// Grafana. A test compares the names in them with what the program sends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

func main() {
	connect := flag.String("connect", "127.0.0.1:2181", "`servers` of ZooKeeper, host:port,...")
	otlp := flag.String("otlp", "http://127.0.0.1:4318", "`URL` of the collector")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, *connect, *otlp, 100*time.Millisecond)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "otel:", err)
		os.Exit(1)
	}
}

// run takes turns until ctx ends, and then sends what was measured last.
func run(ctx context.Context, connect, otlp string, pause time.Duration) (err error) {
	meters, traces, err := newProviders(ctx, otlp)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, meters.Shutdown(ctx), traces.Shutdown(ctx))
	}()
	client, err := framework.Connect(ctx, connect,
		framework.WithMeterProvider(meters), framework.WithTracerProvider(traces))
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := locks.NewInterProcessMutex(client, "/examples/otel")
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := mutex.Do(ctx, func(ctx context.Context) error {
			select { // the work
			case <-time.After(pause):
			case <-ctx.Done():
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "otel:", err) // curator.lock.lost has counted it, if it is a loss
		}
	}
	return nil
}

// newProviders returns what measures and traces. Both send in the background, metrics once a
// minute unless OTEL_METRIC_EXPORT_INTERVAL, in milliseconds, says otherwise.
func newProviders(ctx context.Context, otlp string) (*metric.MeterProvider, *trace.TracerProvider, error) {
	service, err := resource.Merge(resource.Default(), resource.NewSchemaless(semconv.ServiceName("otel-example")))
	if err != nil {
		return nil, nil, err
	}
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(otlp+"/v1/metrics"))
	if err != nil {
		return nil, nil, err
	}
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(otlp+"/v1/traces"))
	if err != nil {
		return nil, nil, errors.Join(err, metrics.Shutdown(ctx))
	}
	return metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(metrics)), metric.WithResource(service)),
		trace.NewTracerProvider(trace.WithBatcher(spans), trace.WithResource(service)), nil
}
