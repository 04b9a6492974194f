package line_test

import (
	"cmp"
	"context"
	"fmt"
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

func (s byNumber) Compare(a, b string) int {
	x, _ := s.Number(a)
	y, _ := s.Number(b)
	return cmp.Or(cmp.Compare(x, y), strings.Compare(a, b))
}

// server is a folder at a server.
type server struct {
	zxid    int64
	names   []string
	next    int
	created int
}

func (s *server) create(owner string) (name string, czxid int64) {
	s.zxid++
	name = fmt.Sprintf("%s%d-n%010d", owner, s.created, s.next)
	s.created++
	s.next++
	s.names = append(s.names, name)
	return name, s.zxid
}

func (s *server) delete(name string) {
	if i := slices.Index(s.names, name); i >= 0 {
		s.zxid++
		s.names = slices.Delete(slices.Clone(s.names), i, i+1)
	}
}

// answer is a list that was sent and has not been learned.
type answer struct {
	arrives chan struct{}
	taken   chan struct{}
}

// TestModel drives a line and a folder at a server through random histories. A place is
// never first by what is known while a foreign node before it exists, unless its own node is
// gone.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &server{zxid: 1 << 32}
		l := line.New(byNumber{})
		places := make(map[string]*line.Place)
		var pending []newcomer
		var lists []answer
		ctx, cancel := context.WithCancel(context.Background())
		defer func() {
			for _, a := range lists {
				close(a.arrives)
				<-a.taken
			}
			cancel()
		}()
		pick := func(names []string) string {
			slices.Sort(names)
			return rapid.SampledFrom(names).Draw(t, "name")
		}
		ours := func() (names []string) {
			for name := range places {
				names = append(names, name)
			}
			return names
		}
		t.Repeat(map[string]func(*rapid.T){
			"foreign create": func(*rapid.T) { s.create("f") },
			"foreign delete": func(t *rapid.T) {
				var foreign []string
				for _, name := range s.names {
					if name[0] == 'f' {
						foreign = append(foreign, name)
					}
				}
				if len(foreign) == 0 {
					t.Skip()
				}
				name := pick(foreign)
				s.delete(name)
				if rapid.Bool().Draw(t, "reported") {
					l.Left(name)
				}
			},
			"other transaction": func(*rapid.T) { s.zxid++ },
			"epoch":             func(*rapid.T) { s.zxid = (s.zxid>>32+1)<<32 + rapid.Int64Range(0, 8).Draw(t, "transactions") },
			"folder made anew": func(t *rapid.T) {
				if len(s.names) > 0 {
					t.Skip()
				}
				s.zxid += 2
				s.next = 0
			},
			"deleted by hand": func(t *rapid.T) {
				if len(s.names) == 0 {
					t.Skip()
				}
				s.delete(pick(slices.Clone(s.names)))
			},
			"create": func(t *rapid.T) {
				alone := l.Alone() || rapid.Bool().Draw(t, "alone")
				began := l.Tick()
				name, czxid := s.create("o")
				n := newcomer{name: name, n: line.Newcomer{Czxid: czxid, Began: began}}
				if !alone {
					n.n.List = slices.Clone(s.names)
				}
				pending = append(pending, n)
			},
			"join": func(t *rapid.T) {
				if len(pending) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(pending)-1).Draw(t, "which")
				n := pending[i]
				pending = slices.Delete(pending, i, i+1)
				places[n.name] = l.Join(n.name, n.n)
			},
			"leave": func(t *rapid.T) {
				if len(places) == 0 {
					t.Skip()
				}
				name := pick(ours())
				proof := rapid.Bool().Draw(t, "proof")
				gone := !slices.Contains(s.names, name)
				places[name].Leave(proof)
				delete(places, name)
				if proof || rapid.Bool().Draw(t, "deleted") {
					s.delete(name)
				}
				if gone {
					l.Doubt()
				}
			},
			"list": func(t *rapid.T) {
				if len(lists) > 0 {
					t.Skip()
				}
				a := answer{make(chan struct{}), make(chan struct{})}
				sent := make(chan struct{})
				go func() {
					defer close(a.taken)
					asked := false
					_, _ = l.List(ctx, l.Tick(), func() {}, func() ([]string, error) { // an error is no news
						if asked { // the first answer was of another folder
							return nil, context.Canceled
						}
						asked = true
						names := slices.Clone(s.names)
						close(sent)
						<-a.arrives
						return names, nil
					})
				}()
				<-sent
				lists = append(lists, a)
			},
			"answer": func(t *rapid.T) {
				if len(lists) == 0 {
					t.Skip()
				}
				a := lists[0]
				lists = nil
				close(a.arrives)
				<-a.taken
			},
			"": func(t *rapid.T) {
				for name, p := range places {
					before, known := p.Before()
					if !known || !slices.Contains(s.names, name) || !slices.Contains(before, name) {
						continue
					}
					for _, other := range s.names {
						if other[0] == 'f' && (byNumber{}).Compare(other, name) < 0 {
							require.Contains(t, before, other, "before %s", name)
						}
					}
				}
			},
		})
	})
}

type newcomer struct {
	name string
	n    line.Newcomer
}
