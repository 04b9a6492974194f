// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
)

const srvName = "_zookeeper._tcp.example.com"

// nameServer answers questions for SRV records over connections in memory.
type nameServer struct {
	targets atomic.Pointer[[]string] // all on port 2181; nil to refuse
	asked   atomic.Int64
}

func (n *nameServer) set(targets ...string) { n.targets.Store(&targets) }

func (n *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		if n.targets.Load() == nil {
			return nil, errors.New("connection refused")
		}
		near, far := net.Pipe()
		go n.serve(far)
		return near, nil
	}}
}

// serve answers one question, as DNS over TCP does.
func (n *nameServer) serve(link net.Conn) {
	defer link.Close()
	var size [2]byte
	if _, err := io.ReadFull(link, size[:]); err != nil {
		return
	}
	question := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(link, question); err != nil {
		return
	}
	n.asked.Add(1)
	targets := *n.targets.Load()
	end := 12 // of the header; then come the name, which ends with an empty part, type and class
	for question[end] != 0 {
		end += int(question[end]) + 1
	}
	answer := append([]byte{0, 0}, question[:end+5]...)
	binary.BigEndian.PutUint16(answer[4:], 0x8180) // a reply without error
	binary.BigEndian.PutUint16(answer[8:], uint16(len(targets)))
	clear(answer[10:14]) // no other records
	for _, target := range targets {
		record := []byte{0, 1, 0, 1, 8, 133} // priority, weight, port 2181
		for part := range strings.SplitSeq(target, ".") {
			if part != "" {
				record = append(append(record, byte(len(part))), part...)
			}
		}
		record = append(record, 0)
		answer = append(answer, 0xC0, 12, 0, 33, 0, 1, 0, 0, 0, 60) // the name of the question, SRV, IN, 60 s
		answer = append(binary.BigEndian.AppendUint16(answer, uint16(len(record))), record...)
	}
	binary.BigEndian.PutUint16(answer, uint16(len(answer)-2))
	_, _ = link.Write(answer)
}

// onFakeDNS runs a test on fake time. The resolver's own state, which all lookups share, must not
// belong to the time of one test.
func onFakeDNS(t *testing.T, test func(t *testing.T, n *nameServer)) {
	t.Helper()
	_, _, err := new(nameServer).resolver().LookupSRV(t.Context(), "", "", srvName)
	require.Error(t, err)
	synctest.Test(t, func(t *testing.T) { test(t, new(nameServer)) })
}

// TestSRVServersThatMoveAreFound by a client that has lost its server, and only then.
func TestSRVServersThatMoveAreFound(t *testing.T) {
	onFakeDNS(t, func(t *testing.T, n *nameServer) {
		z := newZones(t)
		n.set("a1.example.com", "b1.example.com")
		z.set("b1.example.com:2181", true)
		provider := must.Get(framework.NewSRVEnsembleProvider(t.Context(), n.resolver(), srvName, "/orders"))(t)
		f := must.Get(framework.Connect(t.Context(), "", framework.WithEnsembleProvider(provider), framework.WithDialer(z.dial)))(t)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		require.ElementsMatch(t, []string{"a1.example.com:2181", "b1.example.com:2181"}, f.Servers())
		require.True(t, strings.HasSuffix(f.String(), "/orders"), f)
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, n.asked.Load(), "it asks nothing while it is connected")

		n.set("c1.example.com")
		z.set("a1.example.com:2181", true)
		session := f.Session()
		require.NotZero(t, z.server.Cut(session.ID(), 1))
		time.Sleep(5 * time.Second)
		require.True(t, f.State().IsConnected())
		require.Equal(t, []string{"c1.example.com:2181"}, f.Servers())
		require.Same(t, session, f.Session())
	})
}

// TestSRVAnswersThatFailChangeNothing: what is known stays, and questions are not asked more often.
func TestSRVAnswersThatFailChangeNothing(t *testing.T) {
	onFakeDNS(t, func(t *testing.T, n *nameServer) {
		_, err := framework.NewSRVEnsembleProvider(t.Context(), n.resolver(), srvName, "")
		require.ErrorContains(t, err, "framework: SRV records of \""+srvName+"\"")
		n.set()
		_, err = framework.NewSRVEnsembleProvider(t.Context(), n.resolver(), srvName, "")
		require.ErrorContains(t, err, "framework: SRV records of \""+srvName+"\"")
		n.set("a1")
		_, err = framework.NewSRVEnsembleProvider(t.Context(), n.resolver(), srvName, "orders")
		require.ErrorContains(t, err, "connection string")
		var none context.Context
		_, err = framework.NewSRVEnsembleProvider(none, n.resolver(), srvName, "")
		require.ErrorContains(t, err, "context nil, expected")
		provider := must.Get(framework.NewSRVEnsembleProvider(t.Context(), n.resolver(), srvName, ""))(t)
		const known = "a1:2181"
		for _, change := range []func(){func() { n.targets.Store(nil) }, func() { n.set() }} {
			change()
			for range 3 {
				time.Sleep(time.Minute)
				require.Equal(t, known, provider.ConnectionString())
				synctest.Wait()
			}
		}
		n.set("b1")
		before := n.asked.Load()
		for range 100 {
			provider.ConnectionString()
		}
		time.Sleep(time.Second)
		require.Equal(t, "b1:2181", provider.ConnectionString())
		require.Equal(t, before+1, n.asked.Load())
	})
}

// TestSRVRecordsInAnotherOrderAreNoChange: DNS gives them in a random order, each time another one.
func TestSRVRecordsInAnotherOrderAreNoChange(t *testing.T) {
	onFakeDNS(t, func(t *testing.T, n *nameServer) {
		n.set("c1", "a1", "b1", "a1")
		provider := must.Get(framework.NewSRVEnsembleProvider(t.Context(), n.resolver(), srvName, "/orders"))(t)
		for range 20 {
			require.Equal(t, "a1:2181,b1:2181,c1:2181/orders", provider.ConnectionString())
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		require.EqualValues(t, 20, n.asked.Load())
	})
}

// TestSRVRecordsThatNameNoServerAreLeftOut, and logged once, whether they come first or later.
func TestSRVRecordsThatNameNoServerAreLeftOut(t *testing.T) {
	for name, bad := range map[string]string{"no such service": ".", "a blank": "b 1"} {
		t.Run(name, func(t *testing.T) {
			onFakeDNS(t, func(t *testing.T, n *nameServer) {
				log, said := warnings()
				before := slog.Default()
				slog.SetDefault(log)
				defer slog.SetDefault(before)
				n.set("a1", bad)
				provider := must.Get(framework.NewSRVEnsembleProvider(t.Context(), n.resolver(), srvName, ""))(t)
				require.Equal(t, "a1:2181", provider.ConnectionString())
				n.set("a1", "c1", bad)
				for range 3 {
					time.Sleep(time.Minute)
					provider.ConnectionString()
					synctest.Wait()
				}
				require.Equal(t, "a1:2181,c1:2181", provider.ConnectionString())
				warned := said()
				require.Len(t, warned, 1)
				require.Contains(t, warned[0], "SRV records are left out")
				n.set(bad)
				time.Sleep(time.Minute)
				provider.ConnectionString()
				synctest.Wait()
				require.Equal(t, "a1:2181,c1:2181", provider.ConnectionString())
				_, err := framework.NewSRVEnsembleProvider(t.Context(), n.resolver(), srvName, "")
				require.ErrorContains(t, err, srvName)
			})
		})
	}
}
