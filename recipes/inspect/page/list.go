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
	"time"

	"github.com/gocurator/curator/recipes/inspect"
	"github.com/gocurator/curator/recipes/locks"
)

const pageSize = 100 // rows of one page

// overview is what all viewers of a list share, so that a viewer costs what it is shown.
type overview struct {
	rows            []row // in the order of their paths
	held, contended int
	others          []inspect.Recipe // that are no locks
	otherCount      int
	sessions        []session
	sessionCount    int
	orders          map[string]*order // by the name of a sorting
}

// order is the indexes of rows, sorted when a viewer first asks.
type order struct {
	once    sync.Once
	indexes []int32
}

// row is one lock of the list, with what it is sorted and found by.
type row struct {
	*inspect.Recipe
	Holder, Waiter *locks.Participant // that hold and wait for longest, as far as they were read
	text           string             // in lower case
}

func overviewOf(recipes []inspect.Recipe) overview {
	o := overview{orders: make(map[string]*order)}
	for _, sort := range sortings {
		o.orders[sort] = new(order)
	}
	for i := range recipes {
		r := &recipes[i]
		switch {
		case r.Kind.IsLock():
			o.add(r)
		default:
			if o.otherCount++; o.otherCount <= maxOthers {
				o.others = append(o.others, *r)
			}
		}
	}
	o.sessions, o.sessionCount = sessionsOf(recipes)
	return o
}

func (o *overview) add(r *inspect.Recipe) {
	one := row{Recipe: r, Holder: longest(r.Participants, true)}
	if r.Holders > 0 {
		o.held++
	}
	if r.Waiters > 0 {
		o.contended++
		one.Waiter = longest(r.Participants, false)
	}
	if p := one.Holder; p != nil {
		one.text = name(*p) + " " + inspect.Client(*p)
	}
	if p := one.Waiter; p != nil {
		one.text += " " + name(*p)
	}
	one.text = strings.ToLower(one.text + " " + string(r.Kind))
	o.rows = append(o.rows, one)
}

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

// sorted returns the indexes of the rows in an order of sortings.
func (o *overview) sorted(sort string) []int32 {
	s := o.orders[sort]
	s.once.Do(func() {
		indexes := make([]int32, len(o.rows))
		for i := range indexes {
			indexes[i] = int32(i) //nolint:gosec // there are no more rows than fit into memory
		}
		slices.SortStableFunc(indexes, func(i, j int32) int { return compare(&o.rows[i], &o.rows[j], sort) })
		s.indexes = indexes
	})
	return s.indexes
}

func compare(a, b *row, sort string) int {
	since := func(p *locks.Participant) time.Time {
		if p == nil {
			return time.Unix(1<<40, 0) // last
		}
		return p.Since
	}
	switch sort {
	case "held":
		return since(a.Holder).Compare(since(b.Holder))
	case "waited":
		return since(a.Waiter).Compare(since(b.Waiter))
	case "waiters":
		return cmp.Compare(b.Waiters, a.Waiters)
	default:
		return strings.Compare(a.Path, b.Path)
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

// list is one page of rows, with counts of all.
type list struct {
	choice
	Rows                          []*row
	Total, Held, Contended, Found int
	Pages                         int
	First                         int // number of the first row that is shown
}

// of returns the rows that a viewer has asked to see.
func (c choice) of(o *overview) list {
	l := list{choice: c, Total: len(o.rows), Held: o.held, Contended: o.contended, Found: len(o.rows)}
	found := o.sorted(c.Sort)
	if c.Filter != "" {
		filter := strings.ToLower(c.Filter)
		all := found
		found = nil
		for _, i := range all {
			if r := &o.rows[i]; strings.Contains(r.text, filter) || strings.Contains(strings.ToLower(r.Path), filter) {
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
		l.Rows = append(l.Rows, &o.rows[i])
	}
	return l
}
