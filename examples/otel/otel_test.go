// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/otlptranslator"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collectmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collecttraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOtelFilesNameWhatIsSent runs the program, and looks for each metric and each label of the
// alerts and the dashboard among those that it has sent.
func TestOtelFilesNameWhatIsSent(t *testing.T) {
	sent := send(t)
	require.Contains(t, sent.spans, "acquire lock")
	require.Contains(t, sent.spans, "create znode")
	queries := slices.Concat(alerts(t), panels(t))
	require.Greater(t, len(queries), 8)
	for _, query := range queries {
		metrics, labels := namesOf(query)
		require.NotEmpty(t, metrics, query)
		for _, metric := range metrics {
			require.Contains(t, sent.metrics, metric, query)
			for _, label := range labels {
				require.Contains(t, sent.metrics[metric], label, "of %s in %s", metric, query)
			}
		}
	}
}

// TestOtelCollectorIsConfigured: its pipelines take what the program sends by default, and are
// made of parts that are there.
func TestOtelCollectorIsConfigured(t *testing.T) {
	var config struct {
		Receivers struct {
			OTLP struct {
				Protocols struct {
					HTTP struct{ Endpoint string }
				}
			}
		}
		Processors, Exporters map[string]any
		Service               struct {
			Pipelines map[string]struct{ Receivers, Processors, Exporters []string }
		}
	}
	readYAML(t, "collector.yaml", &config)
	require.Equal(t, "127.0.0.1:4318", config.Receivers.OTLP.Protocols.HTTP.Endpoint)
	require.Len(t, config.Service.Pipelines, 2)
	for _, signal := range []string{"metrics", "traces"} {
		pipeline := config.Service.Pipelines[signal]
		require.Equal(t, []string{"otlp"}, pipeline.Receivers, signal)
		require.NotEmpty(t, pipeline.Exporters, signal)
		for _, name := range pipeline.Processors {
			require.Contains(t, config.Processors, name)
		}
		for _, name := range pipeline.Exporters {
			require.Contains(t, config.Exporters, name)
		}
	}
}

// received is what a collector has received.
type received struct {
	mu      sync.Mutex
	metrics map[string][]string // labels of each metric, under the names that Prometheus gets
	spans   []string

	exported chan struct{} // gets a message when there are new metrics
}

// send runs the program until it has taken turns, with a retry and a refusal among them.
func send(t *testing.T) *received {
	t.Helper()
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
	got := &received{metrics: make(map[string][]string), exported: make(chan struct{}, 1)}
	collector := httptest.NewServer(got)
	t.Cleanup(collector.Close)
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	refused := zkserver.FailWith(-102)                                        // no permission
	server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.LoseReply)) // leads to a retry
	server.Intercept(zkserver.Nth(6, zkserver.OpCreate2, refused))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, server.Addr(), collector.URL, time.Millisecond) }()
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
		return e.Fault == refused // after some turns
	})
	for !got.has("curator_session_lease_remaining_seconds") { // while there is a session
		zktest.Await(t, got.exported, "metrics")
	}
	stop()
	require.NoError(t, zktest.Await(t, ended, "the end"))
	return got
}

func (r *received) has(metric string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.metrics[metric] != nil
}

func (r *received) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, err := io.ReadAll(request.Body)
	switch {
	case err != nil:
	case request.URL.Path == "/v1/metrics":
		err = r.addMetrics(body)
		select {
		case r.exported <- struct{}{}:
		default:
		}
	case request.URL.Path == "/v1/traces":
		err = r.addSpans(body)
	default:
		http.NotFound(w, request)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // of an answer that is empty
}

func (r *received) addSpans(body []byte) error {
	var request collecttraces.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	for _, of := range request.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.spans = append(r.spans, span.GetName())
			}
		}
	}
	return nil
}

func (r *received) addMetrics(body []byte) error {
	var request collectmetrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil {
		return err
	}
	for _, of := range request.GetResourceMetrics() {
		for _, scope := range of.GetScopeMetrics() {
			for _, metric := range scope.GetMetrics() {
				if err := r.add(metric); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// add translates the names as the collector does by default.
func (r *received) add(metric *metricspb.Metric) error {
	var kind otlptranslator.MetricType
	var attributes []*commonpb.KeyValue
	suffixes := []string{""}
	switch data := metric.GetData().(type) {
	case *metricspb.Metric_Gauge:
		kind = otlptranslator.MetricTypeGauge
		for _, point := range data.Gauge.GetDataPoints() {
			attributes = append(attributes, point.GetAttributes()...)
		}
	case *metricspb.Metric_Sum:
		kind = otlptranslator.MetricTypeNonMonotonicCounter
		if data.Sum.GetIsMonotonic() {
			kind = otlptranslator.MetricTypeMonotonicCounter
		}
		for _, point := range data.Sum.GetDataPoints() {
			attributes = append(attributes, point.GetAttributes()...)
		}
	case *metricspb.Metric_Histogram:
		kind, suffixes = otlptranslator.MetricTypeHistogram, []string{"_bucket", "_count", "_sum"}
		for _, point := range data.Histogram.GetDataPoints() {
			attributes = append(attributes, point.GetAttributes()...)
		}
	}
	metrics := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	name, err := metrics.Build(otlptranslator.Metric{Name: metric.GetName(), Unit: metric.GetUnit(), Type: kind})
	if err != nil {
		return err
	}
	labels := []string{"job"} // the name of the service
	for _, attribute := range attributes {
		label, err := (&otlptranslator.LabelNamer{}).Build(attribute.GetKey())
		if err != nil {
			return err
		}
		labels = append(labels, label)
	}
	for _, suffix := range suffixes {
		r.metrics[name+suffix] = append(r.metrics[name+suffix], labels...)
		if suffix == "_bucket" {
			r.metrics[name+suffix] = append(r.metrics[name+suffix], "le")
		}
	}
	return nil
}

// alerts returns the queries of the alerts.
func alerts(t *testing.T) (queries []string) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	readYAML(t, "rules.yaml", &file)
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			require.NotEmpty(t, rule.Alert)
			queries = append(queries, rule.Expr)
		}
	}
	require.Len(t, queries, 2)
	return queries
}

// panels returns the queries of the dashboard, and checks the labels in its legends.
func panels(t *testing.T) (queries []string) {
	t.Helper()
	data, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var file struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(data, &file))
	for _, panel := range file.Panels {
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			queries = append(queries, target.Expr)
			_, labels := namesOf(target.Expr)
			for _, found := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.Contains(t, labels, found[1], "legend of %s", target.Expr)
			}
		}
	}
	return queries
}

// namesOf returns the metrics and the labels of a query. Metrics are the names of this library.
func namesOf(query string) (metrics, labels []string) {
	name := regexp.MustCompile(`[a-zA-Z_]\w*`)
	inBraces := regexp.MustCompile(`(?:\bby \(([^)]*)\))|(?:{([^}]*)})`)
	for _, found := range inBraces.FindAllStringSubmatch(query, -1) {
		text := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(found[1]+found[2], "")
		labels = append(labels, name.FindAllString(text, -1)...)
	}
	for _, found := range name.FindAllString(inBraces.ReplaceAllString(query, ""), -1) {
		if strings.HasPrefix(found, "curator_") {
			metrics = append(metrics, found)
		}
	}
	return metrics, labels
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(data, into))
}
