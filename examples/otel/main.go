// SPDX-License-Identifier: Apache-2.0

// Command otel takes turns at a lock, and sends metrics and traces to an OpenTelemetry collector:
//
//	go run ./examples/devserver &      # in the root of the repository
//	cd examples/otel
//	OTEL_METRIC_EXPORT_INTERVAL=10000 go run .
//
// In this folder, collector.yaml has the collector give the metrics to Prometheus. rules.yaml
// has two alerts for Prometheus, and dashboard.json is a dashboard for Grafana.
package main

import (
	"context"
	"errors"
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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, "127.0.0.1:2181", "http://127.0.0.1:4318", 100*time.Millisecond); err != nil {
		panic(err)
	}
}

// run takes turns until ctx ends, and then sends what was measured last.
func run(ctx context.Context, connect, collector string, pause time.Duration) (err error) {
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(collector+"/v1/metrics"))
	if err != nil {
		return err
	}
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(collector+"/v1/traces"))
	if err != nil {
		return errors.Join(err, metrics.Shutdown(ctx))
	}
	service := resource.NewSchemaless(semconv.ServiceName("otel-example"))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(metrics)), metric.WithResource(service))
	traces := trace.NewTracerProvider(trace.WithBatcher(spans), trace.WithResource(service))
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, meters.Shutdown(ctx), traces.Shutdown(ctx))
	}()
	client, err := framework.Connect(ctx, connect, framework.WithMeterProvider(meters), framework.WithTracerProvider(traces))
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
			<-time.After(pause) // the work
			return ctx.Err()
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "otel:", err) // a loss is counted as curator.lock.lost
		}
	}
	return nil
}
