// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

// side is one way to make a request.
type side struct {
	name string
	call func() error
}

// The benchmarks below compare a request made by a Framework, without and with telemetry,
// with the same request made by go-zookeeper, on the same server. "ratio" alternates between
// the three and divides their medians by go-zookeeper's, so other work on the machine affects
// all of them.

func BenchmarkGet(b *testing.B) {
	benchmarkSides(b, func(f *framework.Framework) error {
		_, err := f.Get(context.Background(), "/bench")
		return err
	}, func(conn *zk.Conn) error {
		_, _, err := conn.Get("/bench")
		return err
	})
}

func BenchmarkExists(b *testing.B) {
	benchmarkSides(b, func(f *framework.Framework) error {
		_, err := f.Exists(context.Background(), "/bench")
		return err
	}, func(conn *zk.Conn) error {
		_, _, err := conn.Exists("/bench")
		return err
	})
}

func BenchmarkSet(b *testing.B) {
	data := make([]byte, 100)
	benchmarkSides(b, func(f *framework.Framework) error {
		return f.Set(context.Background(), "/bench", data)
	}, func(conn *zk.Conn) error {
		_, err := conn.Set("/bench", data, -1)
		return err
	})
}

func BenchmarkCreate(b *testing.B) {
	data := make([]byte, 100)
	benchmarkSides(b, func(f *framework.Framework) error {
		_, err := f.Create(context.Background(), "/bench/n-", data, framework.WithMode(framework.EphemeralSequential))
		return err
	}, func(conn *zk.Conn) error {
		_, err := conn.Create("/bench/n-", data, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		return err
	})
}

func benchmarkSides(b *testing.B, ours func(*framework.Framework) error, bare func(*zk.Conn) error) {
	for _, backend := range []struct {
		name    string
		connect func(b *testing.B) string
	}{
		{"zkserver", func(b *testing.B) string { return zktest.NewServer(b).Addr() }},
		{"zookeeper", func(b *testing.B) string { return zktest.NewEnsemble(b, 1).ConnectString() }},
	} {
		b.Run(backend.name, func(b *testing.B) {
			addr := backend.connect(b)
			silent, telling := zktest.Client(b, addr), zktest.Client(b, addr, newObserved().options()...)
			conn, events, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogInfo(false))
			require.NoError(b, err)
			b.Cleanup(conn.Close)
			for event := range events {
				if event.State == zk.StateHasSession {
					break
				}
			}
			_, err = silent.Create(context.Background(), "/bench", nil)
			require.NoError(b, err)
			sides := []side{
				{"bare", func() error { return bare(conn) }},
				{"framework", func() error { return ours(silent) }},
				{"telemetry", func() error { return ours(telling) }},
			}
			for _, s := range sides {
				b.Run(s.name, func(b *testing.B) { benchmarkSide(b, s) })
			}
			b.Run("ratio", func(b *testing.B) { benchmarkRatio(b, sides) })
		})
	}
}

func benchmarkSide(b *testing.B, s side) {
	b.ReportAllocs()
	for b.Loop() {
		if err := s.call(); err != nil {
			b.Fatal(err)
		}
	}
}

// callsInTurn is how often a side makes its call before it is the next one's turn: often
// enough that the first call, for which other goroutines of the client wake up, is not the
// median.
const callsInTurn = 20

func benchmarkRatio(b *testing.B, sides []side) {
	took := make([][]time.Duration, len(sides))
	for b.Loop() {
		for _, i := range rand.Perm(len(sides)) { // what came before matters
			for range callsInTurn {
				began := time.Now()
				if err := sides[i].call(); err != nil {
					b.Fatal(err)
				}
				took[i] = append(took[i], time.Since(began))
			}
		}
	}
	median := func(of []time.Duration) float64 {
		slices.Sort(of)
		return float64(of[len(of)/2])
	}
	base := median(took[0])
	b.ReportMetric(base, "bare-p50-ns")
	for i, s := range sides[1:] {
		b.ReportMetric(median(took[i+1])/base, s.name+"/bare")
	}
}
