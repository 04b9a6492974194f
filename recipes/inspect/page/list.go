// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/recipes/inspect"
	"github.com/gocurator/curator/recipes/locks"
)

const pageSize = 100 // rows of one page

// row is one lock of the list, with what it is sorted and found by.
type row struct {
	inspect.Recipe
	Holder, Waiter *locks.Participant // that hold and wait for longest, as far as they were read
	text           string             // in lower case
}

func rowsOf(recipes []inspect.Recipe) []row {
	var rows []row
	for _, r := range recipes {
		if !r.Kind.IsLock() {
			continue
		}
		one := row{Recipe: r}
		if p, found := r.OldestHold(); found {
			one.Holder = &p
			one.text = name(p) + " " + inspect.Client(p)
		}
		if p, found := r.LongestWait(); found && r.Waiters > 0 {
			one.Waiter = &p
			one.text += " " + name(p)
		}
		one.text = strings.ToLower(one.text + " " + string(r.Kind))
		rows = append(rows, one)
	}
	return rows
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

func (c choice) of(rows []row) list {
	l := list{choice: c, Total: len(rows)}
	var found []*row
	filter := strings.ToLower(c.Filter)
	for i := range rows {
		r := &rows[i]
		if r.Holders > 0 {
			l.Held++
		}
		if r.Waiters > 0 {
			l.Contended++
		}
		if filter == "" || strings.Contains(r.text, filter) || strings.Contains(strings.ToLower(r.Path), filter) {
			found = append(found, r)
		}
	}
	since := func(p *locks.Participant) time.Time {
		if p == nil || p.Since.IsZero() {
			return time.Unix(1<<40, 0) // last
		}
		return p.Since
	}
	slices.SortStableFunc(found, func(a, b *row) int {
		switch c.Sort {
		case "held":
			return since(a.Holder).Compare(since(b.Holder))
		case "waited":
			return since(a.Waiter).Compare(since(b.Waiter))
		case "waiters":
			return cmp.Compare(b.Waiters, a.Waiters)
		default:
			return strings.Compare(a.Path, b.Path)
		}
	})
	l.Found = len(found)
	l.Pages = max(1, (len(found)+pageSize-1)/pageSize)
	l.Page = min(l.Page, l.Pages)
	first := (l.Page - 1) * pageSize
	l.First = first + 1
	l.Rows = slices.Clone(found[first:min(first+pageSize, len(found))])
	return l
}
