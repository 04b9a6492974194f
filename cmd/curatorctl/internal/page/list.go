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

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/recipes/locks"
)

const pageSize = 100 // rows of one page

// picture is what was read below a path. All viewers share it, so that a viewer costs what it is shown.
type picture struct {
	locks           []row
	held, contended int // locks
	others          []inspect.Recipe
	sorted          map[string]func() []row // the locks, sorted when a viewer first asks
}

// row is one lock, with the participants that hold and wait for longest, as far as they were read.
type row struct {
	*inspect.Recipe
	Holder, Waiter *locks.Participant
}

func newPicture(of []inspect.Recipe) *picture {
	p := &picture{sorted: make(map[string]func() []row)}
	fleets := make(map[string]int) // places among the others of what has locks of its own, by path
	for i := range of {            // in the order of their paths, so a fleet comes before its locks
		r := &of[i]
		if !r.Kind.IsLock() {
			if r.Kind == inspect.Partitions || r.Kind == inspect.Jobs {
				fleets[r.Path] = len(p.others)
			}
			p.others = append(p.others, *r)
			continue
		}
		if at, isPart := fleetOf(r.Path, fleets); isPart {
			fleet := &p.others[at]
			fleet.Holders, fleet.Waiters = fleet.Holders+r.Holders, fleet.Waiters+r.Waiters
			continue
		}
		one := row{Recipe: r, Holder: r.OldestHold()}
		if r.Holders > 0 {
			p.held++
		}
		if r.Waiters > 0 {
			p.contended++
			one.Waiter = r.LongestWait()
		}
		p.locks = append(p.locks, one)
	}
	for _, sort := range sortings {
		p.sorted[sort] = sync.OnceValue(func() []row {
			rows := slices.Clone(p.locks)
			slices.SortStableFunc(rows, func(a, b row) int { return compare(a, b, sort) })
			return rows
		})
	}
	return p
}

// fleetOf returns the place of the fleet of jobs, or the outermost group of partitions, that a lock is part of.
func fleetOf(path string, fleets map[string]int) (at int, isPart bool) {
	for end := range path {
		if at, isPart = fleets[path[:end]]; isPart {
			_, below, _ := strings.Cut(path[end+1:], "/")
			return at, below != ""
		}
	}
	return 0, false
}

// has reports whether the path, the kind, the holder or the first waiter has a text, which is in lower case.
func (r row) has(text string) bool {
	if containsFold(r.Path, text) || containsFold(string(r.Kind), text) {
		return true
	}
	for _, p := range []*locks.Participant{r.Holder, r.Waiter} {
		if p != nil && (containsFold(inspect.Name(*p), text) || p.Holds && strings.Contains(inspect.Client(*p), text)) {
			return true
		}
	}
	return false
}

func containsFold(in, text string) bool { return strings.Contains(strings.ToLower(in), text) }

func compare(a, b row, sort string) int {
	switch sort {
	case "held":
		return earlier(a.Holder, b.Holder)
	case "waited":
		return earlier(a.Waiter, b.Waiter)
	case "waiters":
		return cmp.Compare(b.Waiters, a.Waiters)
	default:
		return 0 // they are in the order of their paths
	}
}

// earlier puts the one that came earlier first, and none last.
func earlier(a, b *locks.Participant) int {
	switch {
	case a != nil && b != nil:
		return a.Since.Compare(b.Since)
	case a != nil:
		return -1
	case b != nil:
		return 1
	default:
		return 0
	}
}

// choice is what a viewer has asked to see of a list.
type choice struct {
	Filter string
	Sort   string
	Page   int // from 1
	Job    string
}

// sortings are the orders of the list, the first by default.
var sortings = []string{"waited", "held", "waiters", "path"}

func choiceOf(r *http.Request) choice {
	query := r.URL.Query()
	c := choice{Filter: strings.TrimSpace(query.Get("q")), Sort: query.Get("sort"), Job: query.Get("job")}
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
	Rows                          []row
	Total, Held, Contended, Found int
	Pages                         int
	First                         int // number of the first row that is shown
}

// of returns the locks that a viewer has asked to see.
func (c choice) of(p *picture) list {
	found := p.sorted[c.Sort]()
	if c.Filter != "" {
		filter := strings.ToLower(c.Filter)
		found = slices.DeleteFunc(slices.Clone(found), func(r row) bool { return !r.has(filter) })
	}
	l := list{choice: c, Total: len(p.locks), Held: p.held, Contended: p.contended, Found: len(found)}
	l.Pages = max(1, (len(found)+pageSize-1)/pageSize)
	l.Page = min(l.Page, l.Pages)
	first := (l.Page - 1) * pageSize
	l.First = first + 1
	l.Rows = found[first:min(first+pageSize, len(found))]
	return l
}
