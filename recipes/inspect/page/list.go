// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gocurator/curator/recipes/inspect"
	"github.com/gocurator/curator/recipes/locks"
)

const pageSize = 100 // rows of one page

// picture is what was read, of a subtree or at the path of a lock. All viewers share it, so that a viewer costs what
// it is shown.
type picture struct {
	rows                   []row // in the order of their paths
	total, held, contended int   // locks
	others                 int   // recipes that are no locks
	isFull                 bool  // there are more than the rows
	sessions               []session
	sessionCount           int
	orders                 map[string]*order // of the locks, by the name of a sorting
}

// order is the indexes of rows, sorted when a viewer first asks.
type order struct {
	once    sync.Once
	indexes []int32
}

// painter makes a picture of recipes as they are read.
type painter struct {
	picture
	last     []row // of the picture before
	left     int   // bytes that the picture may still take
	buffer   []byte
	sessions map[int64]int // their numbers
}

func newPainter(last *picture, limit int) *painter {
	p := &painter{left: limit, sessions: make(map[int64]int)}
	if last != nil {
		p.last = last.rows
		p.rows = make([]row, 0, len(last.rows)+len(last.rows)/8)
	}
	return p
}

// add adds a recipe. The picture shares no memory with it.
func (p *painter) add(r *inspect.Recipe) {
	if r.Kind.IsLock() {
		p.total++
		if r.Holders > 0 {
			p.held++
		}
		if r.Waiters > 0 {
			p.contended++
		}
	} else {
		p.others++
	}
	one := rowOf(r, &p.buffer, p.last)
	if cost := len(one.packed) + rowCost; cost <= p.left {
		p.left -= cost
		p.rows = append(p.rows, one)
		p.addSessions(&one, r)
		return
	}
	p.isFull = true
}

// addSessions notes which sessions hold or wait.
func (p *painter) addSessions(one *row, r *inspect.Recipe) {
	for _, q := range r.Participants {
		if q.Session == 0 {
			continue // not an ephemeral node, or one that may not be read
		}
		i, known := p.sessions[q.Session]
		if !known {
			i = len(p.sessions)
			p.sessions[q.Session] = i
			if i < maxSessions {
				p.picture.sessions = append(p.picture.sessions, session{ID: q.Session, Name: strings.Clone(name(q)), Client: inspect.Client(q)})
			}
		}
		switch {
		case i >= maxSessions:
		case q.Holds:
			p.picture.sessions[i].Holds.add(one.path)
		default:
			p.picture.sessions[i].Waits.add(one.path)
		}
	}
}

func (p *painter) done() *picture {
	p.sessionCount = len(p.sessions)
	p.orders = make(map[string]*order)
	for _, sort := range sortings {
		p.orders[sort] = new(order)
	}
	slices.SortStableFunc(p.rows, func(a, b row) int { return strings.Compare(a.path, b.path) })
	done := p.picture // and not what was needed to make it
	return &done
}

// someOthers returns the recipes that are no locks, as many as are shown.
func (p *picture) someOthers() (found []inspect.Recipe) {
	for i := range p.rows {
		if r := &p.rows[i]; !r.isLock {
			found = append(found, r.recipe())
		}
		if len(found) == min(p.others, maxOthers) {
			break
		}
	}
	return found
}

// shown is one lock of the list, as it is drawn.
type shown struct {
	inspect.Recipe
	Holder, Waiter *locks.Participant // that hold and wait for longest, as far as they were read
}

func (s *shown) take(r *row) {
	r.unpack(&s.Recipe)
	s.Holder, s.Waiter = longest(s.Participants, true), nil
	if s.Waiters > 0 {
		s.Waiter = longest(s.Participants, false)
	}
}

// has reports whether the path, the kind, the holder or the first waiter has a text, which is in lower case.
func (s *shown) has(text string) bool {
	if containsFold(s.Path, text) || containsFold(string(s.Kind), text) {
		return true
	}
	for _, p := range []*locks.Participant{s.Holder, s.Waiter} {
		if p != nil && (containsFold(name(*p), text) || p.Holds && strings.Contains(inspect.Client(*p), text)) {
			return true
		}
	}
	return false
}

func containsFold(in, text string) bool { return strings.Contains(strings.ToLower(in), text) }

// longest returns the participant that has held or waited for longest, nil if none was read.
func longest(of []locks.Participant, holds bool) (found *locks.Participant) {
	for i := range of {
		p := &of[i]
		if p.Holds == holds && !p.Since.IsZero() && (found == nil || p.Since.Before(found.Since)) {
			found = p
		}
	}
	return found
}

// sorted returns the indexes of the locks in an order of sortings.
func (p *picture) sorted(sort string) []int32 {
	s := p.orders[sort]
	s.once.Do(func() {
		indexes := make([]int32, 0, min(p.total, len(p.rows)))
		for i := range p.rows {
			if p.rows[i].isLock {
				indexes = append(indexes, int32(i)) //nolint:gosec // there are no more rows than fit into memory
			}
		}
		slices.SortStableFunc(indexes, func(i, j int32) int { return compare(&p.rows[i], &p.rows[j], sort) })
		s.indexes = indexes
	})
	return s.indexes
}

func compare(a, b *row, sort string) int {
	switch sort {
	case "held":
		return cmp.Compare(a.held, b.held)
	case "waited":
		return cmp.Compare(a.waited, b.waited)
	case "waiters":
		return cmp.Compare(b.waiters, a.waiters)
	default:
		return strings.Compare(a.path, b.path)
	}
}

// choice is what a viewer has asked to see of a list.
type choice struct {
	Filter string
	Sort   string
	Page   int // from 1
}

// sortings are the orders of the list, the first by default.
var sortings = []string{"held", "waited", "waiters", "path"}

func choiceOf(r *http.Request) choice {
	query := r.URL.Query()
	c := choice{Filter: strings.TrimSpace(query.Get("q")), Sort: query.Get("sort")}
	if len(c.Filter) > maxText {
		c.Filter = strings.ToValidUTF8(c.Filter[:maxText], "")
	}
	if !slices.Contains(sortings, c.Sort) {
		c.Sort = sortings[0]
	}
	c.Page, _ = strconv.Atoi(query.Get("page")) // what is no number is the first page
	c.Page = max(c.Page, 1)
	return c
}

// URL returns the address of another page of the same choice.
func (c choice) URL(sort string, page int) string {
	query := url.Values{"sort": {sort}, "page": {strconv.Itoa(page)}}
	if c.Filter != "" {
		query.Set("q", c.Filter)
	}
	return "?" + query.Encode()
}

// list is one page of locks, with counts of all.
type list struct {
	choice
	Rows                          []shown
	Total, Held, Contended, Found int
	Pages                         int
	First                         int // number of the first row that is shown
}

// of returns the locks that a viewer has asked to see.
func (c choice) of(p *picture) list {
	found := p.sorted(c.Sort)
	l := list{choice: c, Total: p.total, Held: p.held, Contended: p.contended, Found: len(found)}
	if c.Filter != "" {
		filter := strings.ToLower(c.Filter)
		all := found
		found = nil
		var one shown
		for _, i := range all {
			if one.take(&p.rows[i]); one.has(filter) {
				found = append(found, i)
			}
		}
		l.Found = len(found)
	}
	l.Pages = max(1, (len(found)+pageSize-1)/pageSize)
	l.Page = min(l.Page, l.Pages)
	first := (l.Page - 1) * pageSize
	l.First = first + 1
	for _, i := range found[first:min(first+pageSize, len(found))] {
		var one shown
		one.take(&p.rows[i])
		l.Rows = append(l.Rows, one)
	}
	return l
}
