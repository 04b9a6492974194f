// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// TestPlanOfManyPartitions: a plan of 30,000 partitions is written and read as one of a hundred. One member has all of them, or many
// members share them. A long run has 100,000. The log has what it costs; SIZING.md has the table of a long run.
func TestPlanOfManyPartitions(t *testing.T) {
	sizes := []int{100, 30_000}
	if seeds.Long() {
		sizes = []int{100, 10_000, 100_000}
	}
	for _, partitions := range sizes {
		set := make([]entry, partitions)
		for i := range set {
			set[i].name = fmt.Sprintf("partition-%05d", i)
		}
		for _, standbys := range []int{0, 1} {
			if partitions == 100_000 && standbys == 0 && os.Getenv("CURATOR_PARTITION_SCALE") == "" {
				continue // it takes seconds, and shows nothing else
			}
			p := newSoloist(t, standbys)
			p.join(1)
			p.plan(set, "one member has all")
			p.join(99)
			p.plan(set, "99 more join")
			p.leave("m000")
			p.plan(set, "one has gone")
			s := must.Get(readState(t.Context(), p.client, p.at))(t)
			require.Len(t, s.planned(), partitions)
			require.True(t, s.isBalanced())
		}
	}
}

// soloist plans alone for members that do nothing.
type soloist struct {
	tb              testing.TB
	client          *framework.Framework
	at              layout
	standbys, count int
	requests, size  atomic.Int64
}

func newSoloist(tb testing.TB, standbys int) *soloist {
	p := &soloist{tb: tb, at: "/jobs", standbys: standbys}
	link := zktest.NewProxy(tb, zktest.NewServer(tb))
	link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
		if f.Kind == zkproxy.Request {
			p.requests.Add(1)
		}
		p.size.Add(int64(4 + len(f.Body)))
		return zkproxy.Pass
	})
	p.client = zktest.Client(tb, link)
	return p
}

func (p *soloist) join(n int) {
	for range n {
		g := registration{Capacity: 1, Set: "set", Zone: fmt.Sprintf("zone-%d", p.count%3), Standbys: &p.standbys}
		must.Get(p.client.Create(p.tb.Context(), p.at.member(fmt.Sprintf("m%03d", p.count)), g.encode(),
			framework.WithMode(framework.Ephemeral), framework.CreatingParentContainersIfNeeded()))(p.tb)
		p.count++
	}
}

func (p *soloist) leave(id string) {
	require.NoError(p.tb, p.client.Delete(p.tb.Context(), p.at.member(id)))
}

// plan reads the state and writes the next plan.
func (p *soloist) plan(set []entry, what string) {
	p.requests.Store(0)
	p.size.Store(0)
	s := must.Get(readState(p.tb.Context(), p.client, p.at))(p.tb)
	read := p.size.Load()
	began := time.Now()
	data, changes, err := s.next(p.at, config{id: "m001"}, decide(s, set, config{}, true))
	require.NoError(p.tb, err)
	took := time.Since(began)
	for _, c := range changes {
		require.Less(p.tb, c.size, p.client.MaxRequestSize())
	}
	require.NoError(p.tb, s.write(p.tb.Context(), p.client, p.at, data, changes))
	p.tb.Logf("%d partitions, %d standbys, %d members: %s: %d requests, read %.1f KB, written %.1f KB, computed in %v", len(set), p.standbys,
		len(s.members), what, p.requests.Load(), float64(read)/1000, float64(p.size.Load()-read)/1000, took.Round(time.Millisecond))
}

// TestPackLeavesWhatIsShort: people can read it.
func TestPackLeavesWhatIsShort(t *testing.T) {
	for _, size := range []int{0, 1000, packAbove - 1, packAbove, 10 * packAbove} {
		data := bytes.Repeat([]byte("a"), size)
		packed := must.Get(pack(data))(t)
		require.Equal(t, size < packAbove, bytes.Equal(data, packed), size)
		require.Equal(t, data, must.Get(unpack(packed))(t))
	}
	_, err := unpack([]byte{0x1f, 0x8b, 8})
	require.Error(t, err, "damaged")
}

// TestStoredSetMayBeCompressed, as a set of 100,000 names must be.
func TestStoredSetMayBeCompressed(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	var text bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintf(&text, "partition-%06d\n", i)
	}
	data := must.Get(framework.GzipCompressionProvider{}.Compress("", text.Bytes()))(t)
	must.Get(client.Create(t.Context(), "/set", data))(t)
	set, lacking, err := Stored("/set").read(t.Context(), client)
	require.NoError(t, err)
	require.NoError(t, lacking)
	require.Len(t, set, 100_000)
	require.NoError(t, client.Set(t.Context(), "/set", slices.Concat(data[:100], []byte("damaged"))))
	_, lacking, err = Stored("/set").read(t.Context(), client)
	require.NoError(t, err)
	require.Error(t, lacking)
}

// TestWithoutLeavesNamesToOtherSets: a set of which another one has names, or may have them, has the rest.
func TestWithoutLeavesNamesToOtherSets(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	write := func(path, data string) {
		must.Get(client.Create(t.Context(), path, []byte(data), framework.OrSetData()))(t)
	}
	rest := Without(Stored("/b"), Fixed("fixed"), Stored("/a"))
	require.Equal(t, []string{"/b", "/a"}, rest.paths())
	require.NotEqual(t, rest.id(), Without(Stored("/b"), Fixed("other"), Stored("/a")).id())
	write("/b", "eu\t3\nfixed\nus")
	read := func() (string, error) {
		set, lacking, err := rest.read(t.Context(), client)
		require.NoError(t, err)
		return fmt.Sprint(set), lacking
	}
	for _, c := range []struct{ a, want string }{
		{"", "[{eu 3} {us 0}]"}, // there is none
		{"us", "[{eu 3}]"},
		{"us\neu", "[]"},
		{"eu\na/b", "[{eu 3} {us 0}]"}, // it is not valid
	} {
		if c.a != "" {
			write("/a", c.a)
		}
		set, lacking := read()
		require.Equal(t, c.want, set)
		require.NoError(t, lacking)
	}
	require.NoError(t, client.Delete(t.Context(), "/b"))
	_, lacking := read()
	require.ErrorIs(t, lacking, framework.ErrNoNode)
	for _, others := range [][]Names{{nil}, {Stored("a")}, {Fixed("a/b")}} {
		require.Error(t, Without(Stored("/b"), others...).check(client))
	}
	require.Error(t, Without(nil).check(client))
}

// TestPreparedHasAQuarterOfARequest: a member that is prepared for more partitions tells the first ones.
func TestPreparedHasAQuarterOfARequest(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	m := must.Get(New(client, "/jobs", Fixed("p"), WithStandbys(1, func(context.Context, string) error { return nil })))(t)
	r := must.Get(newRun(t.Context(), m.group, decide, func(context.Context, Partition) error { return nil }))(t)
	prepared := &preparation{ready: make(chan struct{})}
	close(prepared.ready)
	name := func(i int) string { return fmt.Sprintf("partition-%010d", i) }
	for i := range 20_000 {
		r.held.pieces[name(i)] = &piece{standby: true, warm: prepared}
	}
	g := r.reporter.registration()
	require.LessOrEqual(t, len(g.encode()), client.MaxRequestSize()/4+1000)
	require.Greater(t, len(g.Prepared), 10_000)
	for i, told := range g.Prepared {
		require.Equal(t, name(i), told)
	}
}

// TestLargestLoadsAreReportedFirst: they have half of a request, and those that do not fit are the smallest.
func TestLargestLoadsAreReportedFirst(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	m := must.Get(New(client, "/jobs", Fixed("p")))(t)
	r := must.Get(newRun(t.Context(), m.group, decide, func(context.Context, Partition) error { return nil }))(t)
	const n = 20_000
	for i := range n {
		r.held.pieces[fmt.Sprintf("partition-%010d", i)] = &piece{load: n - i}
	}
	g := r.reporter.registration()
	require.LessOrEqual(t, len(g.encode()), client.MaxRequestSize()/2+1000)
	require.Greater(t, len(g.Loads), n/2)
	for i := range n {
		load, told := g.Loads[fmt.Sprintf("partition-%010d", i)]
		require.Equal(t, i < len(g.Loads), told)
		require.Equal(t, told, load == n-i)
	}
}

// TestWithoutSaysWhatItLeavesOutWhenThatChanges: also the same names, when they are left out again.
func TestWithoutSaysWhatItLeavesOutWhenThatChanges(t *testing.T) {
	var log bytes.Buffer
	client := zktest.Client(t, zktest.NewServer(t), framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	must.Get(client.Create(t.Context(), "/set", []byte("eu\nus")))(t)
	must.Get(client.Create(t.Context(), "/first", nil))(t)
	rest := Without(Stored("/set"), Stored("/first"))
	for _, first := range []string{"us", "us", "", "us"} {
		require.NoError(t, client.Set(t.Context(), "/first", []byte(first)))
		_, lacking, err := rest.read(t.Context(), client)
		require.NoError(t, errors.Join(lacking, err))
	}
	require.NoError(t, client.Close()) // which writes what is in the log's queue
	require.Equal(t, 2, strings.Count(log.String(), "names=us of=/set"), "%s", &log)
}
