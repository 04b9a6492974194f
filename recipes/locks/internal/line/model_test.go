// SPDX-License-Identifier: Apache-2.0

package line_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/recipes/locks/internal/line"
)

// byNumber orders names that end with a number of ten digits.
type byNumber struct{}

func (byNumber) Contends(name string) bool { _, ok := byNumber{}.Number(name); return ok }

func (byNumber) Number(name string) (int32, bool) {
	_, digits, found := strings.Cut(name, "-n")
	n, err := strconv.ParseInt(digits, 10, 32)
	return int32(n), found && err == nil
}

// Shrinks is false for a node whose place another node may take, v of ours and w of others.
func (byNumber) Shrinks(name string) bool { return name[0] != 'v' && name[0] != 'w' }

// Compare is 0 for a node and the node in whose place it is.
func (s byNumber) Compare(a, b string) int {
	x, _ := s.Number(a)
	y, _ := s.Number(b)
	return cmp.Compare(x, y)
}

// isBefore reports whether a line must have a before b.
func isBefore(a, b string) bool {
	return cmp.Or(byNumber{}.Compare(a, b), strings.Compare(a, b)) < 0
}

// numberless is byNumber for a line that does not know the numbers.
type numberless struct{}

func (numberless) Contends(name string) bool { return byNumber{}.Contends(name) }
func (numberless) Compare(a, b string) int   { return byNumber{}.Compare(a, b) }
func (numberless) Shrinks(name string) bool  { return byNumber{}.Shrinks(name) }

// server is a folder at a server.
type server struct {
	history int64
	link    int // of the client; a restored server has none with it
	zxid    int64
	pzxid   int64
	names   []string
	next    int
	created int // in all histories: names never come again
}

func (s *server) create(owner string) (name string, czxid int64) {
	s.zxid++
	s.pzxid = s.zxid
	name = fmt.Sprintf("%s%d-n%010d", owner, s.created, s.next)
	s.created++
	s.next++
	s.names = append(slices.Clone(s.names), name)
	return name, s.zxid
}

// replace creates a node in the place of another one. The server counts it, as each child.
func (s *server) replace(name, owner string) (replacing string, czxid int64) {
	_, number, _ := strings.Cut(name, "-n")
	created, czxid := s.create(owner)
	replacing = strings.Split(created, "-n")[0] + "-n" + number
	s.names[len(s.names)-1] = replacing
	return replacing, czxid
}

func (s *server) delete(name string) {
	if i := slices.Index(s.names, name); i >= 0 {
		s.zxid++
		s.pzxid = s.zxid
		s.names = slices.Delete(slices.Clone(s.names), i, i+1)
	}
}

// slowLister sends the list that is asked for next, and holds its answer back. Others fail.
type slowLister struct {
	server *server
	next   *lateness
}

func (s *slowLister) Ask(r *line.Request) {
	late := s.next
	if late == nil {
		r.Answered(line.List{}, context.Canceled)
		return
	}
	s.next = nil
	r.Sent()
	answer := line.List{Names: s.server.names, Pzxid: s.server.pzxid, History: s.server.history, Link: s.server.link}
	close(late.sent)
	<-late.arrives
	r.Answered(answer, nil)
}

// lateness is a node or, with channels, a list that the line learns later.
type lateness struct {
	name                 string
	node                 line.Node
	sent, arrives, taken chan struct{}
}

// model is one run of a line beside a folder.
type model struct {
	server    *server
	backup    server
	line      *line.Line
	lister    *slowLister
	places    map[string]*line.Place
	links     map[string]int // over which the nodes were created
	histories map[string]int64
	over      map[string]bool   // our own nodes whose places have left with proof
	replaced  map[string]string // by node, the one whose place it has taken
	tooLate   map[string]bool   // nodes that were created when the one that they replace was gone
	lost      map[string]bool   // nodes that the backup did not have
	late      []lateness
}

// TestModel drives a line and a folder at a server through random histories. A place is never
// first by what is known while a contender before it exists, unless its own node is gone, or
// what is known is of another connection.
func TestModel(t *testing.T) {
	for name, sorter := range map[string]line.Sorter{"numbers": byNumber{}, "lists only": numberless{}} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { runModel(t, sorter) }) })
	}
}

func runModel(t *rapid.T, sorter line.Sorter) {
	m := &model{
		server: &server{history: 1, zxid: 1 << 32, pzxid: 1 << 32},
		line:   line.New(sorter), places: map[string]*line.Place{}, links: map[string]int{}, histories: map[string]int64{}, over: map[string]bool{}, replaced: map[string]string{}, tooLate: map[string]bool{}, lost: map[string]bool{},
	}
	m.backup, m.lister = *m.server, &slowLister{server: m.server}
	defer func() {
		for len(m.late) > 0 {
			m.arrive(0)
		}
	}()
	foreign := func(kinds string) []string {
		return slices.DeleteFunc(slices.Clone(m.server.names), func(name string) bool { return !strings.Contains(kinds, name[:1]) })
	}
	pick := func(t *rapid.T, names []string) string {
		if len(names) == 0 {
			t.Skip()
		}
		slices.Sort(names)
		return rapid.SampledFrom(names).Draw(t, "name")
	}
	t.Repeat(map[string]func(*rapid.T){
		"foreign nodes are created": func(t *rapid.T) { m.fill(rapid.IntRange(1, 3).Draw(t, "nodes")) },
		"a foreign node is deleted": func(t *rapid.T) {
			name := pick(t, foreign("fwx"))
			m.server.delete(name)
			if rapid.Bool().Draw(t, "reported") {
				m.line.Left(name)
			}
		},
		"a replaceable node is created": func(*rapid.T) { m.server.create("w") },
		"a foreign node is replaced": func(t *rapid.T) {
			name := pick(t, foreign("w"))
			replacing, _ := m.server.replace(name, "x")
			m.replaced[replacing] = name
		},
		"a node is deleted by hand": func(t *rapid.T) { m.server.delete(pick(t, slices.Clone(m.server.names))) },
		"another transaction":       func(*rapid.T) { m.server.zxid++ },
		"a new epoch": func(t *rapid.T) {
			m.server.zxid = (m.server.zxid>>32+1)<<32 + rapid.Int64Range(0, 8).Draw(t, "transactions")
		},
		"the folder is created again": func(t *rapid.T) {
			for _, name := range m.server.names {
				m.server.delete(name)
			}
			m.server.zxid += 2
			m.server.pzxid, m.server.next = m.server.zxid, 0
			m.fill(rapid.IntRange(0, 3).Draw(t, "nodes"))
		},
		"a backup is made": func(*rapid.T) { m.backup = *m.server },
		"the backup is restored": func(*rapid.T) {
			before := *m.server
			*m.server = m.backup
			for _, name := range before.names {
				m.lost[name] = true
			}
			for _, name := range m.backup.names {
				delete(m.lost, name)
			}
			m.server.history, m.server.link, m.server.created = before.history+1, before.link+1, before.created
		},
		"another connection": func(*rapid.T) { m.server.link++ },
		"create": func(t *rapid.T) {
			alone := alone(m.line) || rapid.Bool().Draw(t, "alone")
			n := line.Node{History: m.server.history, Link: m.server.link}
			name, czxid := m.server.create(rapid.SampledFrom([]string{"o", "v"}).Draw(t, "owner"))
			n.Czxid = czxid
			m.links[name], m.histories[name] = m.server.link, m.server.history
			if !alone {
				n.List = m.server.names
			}
			m.late = append(m.late, lateness{name: name, node: n})
		},
		"create in the place of our own": func(t *rapid.T) {
			name := pick(t, slices.DeleteFunc(slices.Collect(maps.Keys(m.places)), func(name string) bool { return name[0] != 'v' }))
			late := !slices.Contains(m.server.names, name)
			n := line.Node{History: m.server.history, Link: m.server.link, Moved: true}
			replacing, czxid := m.server.replace(name, "y")
			n.Czxid, n.List = czxid, m.server.names
			m.links[replacing], m.histories[replacing] = m.server.link, m.server.history
			m.replaced[replacing], m.tooLate[replacing] = name, late
			m.late = append(m.late, lateness{name: replacing, node: n})
		},
		"list": func(t *rapid.T) {
			if slices.ContainsFunc(m.late, func(l lateness) bool { return l.sent != nil }) {
				t.Skip() // one is under way at a time
			}
			late := lateness{sent: make(chan struct{}), arrives: make(chan struct{}), taken: make(chan struct{})}
			m.lister.next = &late
			go func() {
				defer close(late.taken)
				_, _ = m.line.List(context.Background(), true, m.lister) // an error is no news
			}()
			<-late.sent
			m.late = append(m.late, late)
		},
		"an answer arrives": func(t *rapid.T) {
			if len(m.late) == 0 {
				t.Skip()
			}
			m.arrive(rapid.IntRange(0, len(m.late)-1).Draw(t, "which"))
		},
		"leave": func(t *rapid.T) {
			name := pick(t, slices.Collect(maps.Keys(m.places)))
			proof := rapid.Bool().Draw(t, "proof") && !slices.Contains(slices.Collect(maps.Values(m.replaced)), name)
			m.places[name].Leave(proof)
			delete(m.places, name)
			m.over[name] = proof
			if rapid.Bool().Draw(t, "deleted") {
				m.server.delete(name)
			}
		},
		"": m.check,
	})
}

// fill has other clients create nodes.
func (m *model) fill(nodes int) {
	for range nodes {
		m.server.create("f")
	}
}

// arrive has the line learn the answer to a request.
func (m *model) arrive(i int) {
	late := m.late[i]
	m.late = slices.Delete(m.late, i, i+1)
	if late.sent != nil {
		close(late.arrives)
		<-late.taken
		return
	}
	m.places[late.name] = join(m.line, late.name, late.node)
}

func (m *model) check(t *rapid.T) {
	for name, p := range m.places {
		before, known := p.Before()
		connected := m.links[name] == m.server.link || m.line.Seen(m.server.link)
		if known && m.lost[name] && m.line.Seen(m.server.link) {
			require.NotContains(t, before, name, "a list of the restored servers has come")
		}
		if !known || !connected || !slices.Contains(m.server.names, name) {
			continue
		}
		if !slices.Contains(before, name) {
			require.NotEqual(t, m.server.history, m.histories[name], "%s is taken for gone", name)
			continue
		}
		if m.tooLate[name] {
			if m.histories[name] == m.server.history {
				require.NotContains(t, before, m.replaced[name], "it was gone before %s", name)
			}
			continue // it gives up
		}
		for _, other := range m.server.names {
			if !m.over[other] && !m.tooLate[other] && isBefore(other, name) && !slices.Contains(before, m.replaced[other]) {
				require.Contains(t, before, other, "before %s", name)
			}
		}
	}
}
