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
	world   int // how often it was restored, with a sign or without
	link    int // of the client; a restored server has none with it
	zxid    int64
	pzxid   int64
	lazy    bool // a deletion does not show in pzxid
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

// createByName creates a node whose number the caller chooses. The server counts it, as each child.
func (s *server) createByName(number int) (name string, czxid int64) {
	created, czxid := s.create("h")
	name = fmt.Sprintf("%s-n%010d", strings.Split(created, "-n")[0], number)
	s.names[len(s.names)-1] = name
	return name, czxid
}

func (s *server) delete(name string) {
	if i := slices.Index(s.names, name); i >= 0 {
		if s.zxid++; !s.lazy {
			s.pzxid = s.zxid
		}
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
	place                *line.Place
	node                 line.Node
	sent, arrives, taken chan struct{}
}

// model is one run of a line beside a folder.
type model struct {
	server   *server
	backup   server
	line     *line.Line
	lister   *slowLister
	places   map[string]*line.Place
	worlds   map[string]int // in which the nodes were created
	czxids   map[string]int64
	byName   map[string]int64  // the creation of a node whose number the server has not given
	over     map[string]bool   // our own nodes whose places have left with proof
	replaced map[string]string // by node, the one whose place it has taken
	tooLate  map[string]bool   // nodes that were created when the one that they replace was gone
	lost     map[string]bool   // nodes that the backup did not have
	late     []lateness
}

// TestModel drives a line and a folder at a server through random histories. A place is never
// first by what is known while a contender before it exists, unless its own node is gone, or what is
// known is of another connection, or the contender came later by a name with a number before ours.
func TestModel(t *testing.T) {
	for name, sorter := range map[string]line.Sorter{"numbers": byNumber{}, "lists only": numberless{}} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { runModel(t, sorter) }) })
	}
}

func runModel(t *rapid.T, sorter line.Sorter) {
	m := &model{
		server: &server{history: 1, zxid: 1 << 32, pzxid: 1 << 32, next: rapid.IntRange(0, 20).Draw(t, "next"), lazy: rapid.Bool().Draw(t, "lazy")},
		line:   line.New(sorter), places: map[string]*line.Place{}, worlds: map[string]int{}, czxids: map[string]int64{}, byName: map[string]int64{}, over: map[string]bool{}, replaced: map[string]string{}, tooLate: map[string]bool{}, lost: map[string]bool{},
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
			name := pick(t, foreign("fwxh"))
			m.server.delete(name)
			if rapid.Bool().Draw(t, "reported") {
				m.line.Left(name)
			}
		},
		"foreign nodes are created in one transaction": func(t *rapid.T) {
			at := m.server.zxid + 1
			for range rapid.IntRange(2, 3).Draw(t, "nodes") {
				m.server.create("f")
				m.server.zxid, m.server.pzxid = at, at
			}
		},
		"a node is created by name": func(t *rapid.T) {
			name, czxid := m.server.createByName(max(0, m.server.next+rapid.IntRange(-2, 4).Draw(t, "number")))
			m.byName[name] = czxid
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
			before := m.restore()
			m.server.history = before.history + 1
		},
		"the backup is restored without a sign": func(t *rapid.T) {
			before := m.restore()
			m.fill(rapid.IntRange(0, 3).Draw(t, "nodes"))
			// Or the servers would refuse the client.
			m.server.zxid = max(m.server.zxid, before.zxid) + rapid.Int64Range(1, 3).Draw(t, "transactions")
		},
		"another connection": func(*rapid.T) { m.server.link++ },
		"create":             m.create,
		"create at once": func(t *rapid.T) {
			m.create(t)
			m.arrive(len(m.late) - 1)
		},
		"create in the place of our own": func(t *rapid.T) {
			name := pick(t, slices.DeleteFunc(slices.Collect(maps.Keys(m.places)), func(name string) bool { return name[0] != 'v' }))
			late := !slices.Contains(m.server.names, name)
			place := m.line.NewPlace()
			replacing, czxid := m.server.replace(name, "y")
			n := line.Node{Name: replacing, Czxid: czxid, History: m.server.history, Link: m.server.link, Moved: true, List: m.server.names}
			m.worlds[replacing], m.czxids[replacing] = m.server.world, czxid
			m.replaced[replacing], m.tooLate[replacing] = name, late
			m.late = append(m.late, lateness{place: place, node: n})
		},
		"list": m.list,
		"list at once": func(t *rapid.T) {
			m.list(t)
			m.arrive(len(m.late) - 1)
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

// create creates a node of ours. The line learns it later.
func (m *model) create(t *rapid.T) {
	place := m.line.NewPlace()
	alone := place.Alone(m.server.link) || rapid.Bool().Draw(t, "alone")
	name, czxid := m.server.create(rapid.SampledFrom([]string{"o", "v"}).Draw(t, "owner"))
	n := line.Node{Name: name, Czxid: czxid, History: m.server.history, Link: m.server.link}
	m.worlds[name], m.czxids[name] = m.server.world, czxid
	if !alone {
		n.List = m.server.names
	}
	m.late = append(m.late, lateness{place: place, node: n})
}

// list sends a list. The line learns it later.
func (m *model) list(t *rapid.T) {
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
}

// fill has other clients create nodes.
func (m *model) fill(nodes int) {
	for range nodes {
		m.server.create("f")
	}
}

// restore brings back what the backup has, and returns what there was before.
func (m *model) restore() (before server) {
	before = *m.server
	*m.server = m.backup
	for _, name := range before.names {
		m.lost[name] = true
	}
	for _, name := range m.backup.names {
		delete(m.lost, name)
	}
	m.server.history, m.server.world, m.server.link = before.history, before.world+1, before.link+1
	m.server.created = before.created
	return before
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
	late.place.Join(late.node)
	m.places[late.node.Name] = late.place
}

func (m *model) check(t *rapid.T) {
	for name, p := range m.places {
		before, known := p.Before()
		if !known || !m.line.Seen(m.server.link) {
			continue
		}
		if m.lost[name] {
			require.NotContains(t, before, name, "a list of the restored servers has come")
		}
		if !slices.Contains(m.server.names, name) {
			continue
		}
		if !slices.Contains(before, name) {
			require.NotEqual(t, m.server.world, m.worlds[name], "%s is taken for gone", name)
			continue
		}
		if m.tooLate[name] {
			if m.worlds[name] == m.server.world {
				require.NotContains(t, before, m.replaced[name], "it was gone before %s", name)
			}
			continue // it gives up
		}
		for _, other := range m.server.names {
			if !m.over[other] && !m.tooLate[other] && m.byName[other] < m.czxids[name] && isBefore(other, name) && !slices.Contains(before, m.replaced[other]) {
				require.Contains(t, before, other, "before %s", name)
			}
		}
	}
}
