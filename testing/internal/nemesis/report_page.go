// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	_ "embed" // for the template
	"fmt"
	"hash/fnv"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed report_page.html
var pageText string

var pageShape = template.Must(template.New("round").Parse(pageText))

// The layout of a page, in pixels. Time goes from left to right.
const (
	pageLeft  = 230  // names
	pageWidth = 1400 // of the time line
	rowHeight = 16
	minBar    = 0.6 // a shorter bar would not be seen
	hues      = 8   // in report_page.html
)

// timeline is a page about one round: its faults, and the holds of each lock, on one scale.
type timeline struct {
	Folder, Setup string
	Width, Height int
	Left, Right   int
	Ticks         []instant
	Rows          []row
	Holds, Lost   int
	Handovers     int
	Longest       time.Duration // hand-over
}

type instant struct {
	X     float64
	Label string
}

// row is one line of the page: a kind of fault, or what fits of a lock's holds beside each other.
type row struct {
	Y     int
	Name  string
	Bars  []bar
	Lines []bar // from the end of a hold to the beginning of the next one's, by another client
	Marks []bar // losses
}

type bar struct {
	X, Width float64
	Class    string
	Title    string

	until float64 // where it ends
}

// End is where a line ends.
func (b bar) End() float64 { return b.until }

// writePage writes the page about a round into the folder of the report.
func writePage(folder string, r *roundReport) error {
	path := filepath.Join(folder, r.record.Folder+".html")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("nemesis: page: %w", err)
	}
	err = pageShape.Execute(file, newTimeline(r))
	if err := cmp.Or(err, file.Close()); err != nil {
		return fmt.Errorf("nemesis: page: %w", err)
	}
	return nil
}

// scale puts moments of a round on the page.
type scale struct{ start, end int64 }

func (s scale) x(at int64) float64 {
	at = min(max(at, s.start), s.end)
	return pageLeft + pageWidth*float64(at-s.start)/float64(max(s.end-s.start, 1))
}

func (s scale) bar(from, until int64, class, title string) bar {
	b := bar{X: s.x(from), Class: class, Title: title, until: s.x(until)}
	b.Width = max(b.until-b.X, minBar)
	return b
}

// since is a moment as the page names it.
func (s scale) since(at int64) string {
	return time.Duration(at - s.start).Round(time.Millisecond).String()
}

// tick is the time between two marks on the page. There are at most a dozen.
func (s scale) tick() int64 {
	const most = 12
	step := time.Second
	for _, seconds := range []int{2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600} {
		if s.end-s.start <= int64(most*step) {
			break
		}
		step = time.Duration(seconds) * time.Second
	}
	return int64(step)
}

func newTimeline(r *roundReport) *timeline {
	s := scale{r.record.Start, r.record.End}
	t := &timeline{
		Folder: r.record.Folder, Setup: r.record.Setup, Left: pageLeft, Right: pageLeft + pageWidth, Width: pageLeft + pageWidth + 20,
	}
	for at, step := s.start, s.tick(); at <= s.end; at += step {
		t.Ticks = append(t.Ticks, instant{s.x(at), s.since(at)})
	}
	t.faults(s, r.record.Faults)
	for _, spec := range r.record.Locks {
		for _, lock := range locksOf(r, spec) {
			t.lock(s, lock, r.locks[lock])
		}
	}
	for i := range t.Rows {
		t.Rows[i].Y = (i + 2) * rowHeight
	}
	t.Height = (len(t.Rows) + 3) * rowHeight
	return t
}

// locksOf returns the names of a spec's locks that were held. A multi-lock has several.
func locksOf(r *roundReport, spec lockSpec) []string {
	var names []string
	for name := range r.locks {
		if specName(name) == spec.Name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// faults adds a row for each kind of fault.
func (t *timeline) faults(s scale, faults []faultRecord) {
	rows := make(map[string]int)
	for _, f := range faults {
		name := f.Fault + " " + f.Name
		at, known := rows[name]
		if !known {
			at = len(t.Rows)
			rows[name] = at
			t.Rows = append(t.Rows, row{Name: name})
		}
		title := fmt.Sprintf("%s: %s, %s to %s", name, f.Detail, s.since(f.Start), s.since(f.End))
		class := "fault"
		if f.Error != "" {
			class, title = "undone", title+": "+f.Error
		}
		t.Rows[at].Bars = append(t.Rows[at].Bars, s.bar(f.Start, f.End, class, title))
	}
}

// lock adds the rows of a lock: as many as it had holders at the same time.
func (t *timeline) lock(s scale, name string, holds []*hold) {
	first := len(t.Rows)
	var ends []int64 // of the newest hold of each row
	var newest []*hold
	for _, h := range holds {
		end := shownEnd(s, h)
		at := slices.IndexFunc(ends, func(end int64) bool { return end <= h.acquired })
		if at < 0 {
			at = len(ends)
			ends, newest = append(ends, 0), append(newest, nil)
			t.Rows = append(t.Rows, row{})
		}
		r := &t.Rows[first+at]
		if before := newest[at]; before != nil {
			t.handover(s, r, before, ends[at], h)
		}
		r.add(s.bar(h.acquired, end, class(h), fmt.Sprintf("%s holds %s, token %d, %s to %s", h.client, name, h.token, s.since(h.acquired), s.since(end))))
		if h.lost != 0 {
			r.Marks = append(r.Marks, s.bar(h.lost, h.lost, "lost", fmt.Sprintf("%s is told at %s that it has lost %s, token %d", h.client, s.since(h.lost), name, h.token)))
			t.Lost++
		}
		ends[at], newest[at] = end, h
		t.Holds++
	}
	if first < len(t.Rows) {
		t.Rows[first].Name = name
	}
}

// handover draws how long a lock was free between two clients.
func (t *timeline) handover(s scale, r *row, before *hold, end int64, h *hold) {
	if before.client == h.client {
		return
	}
	t.Handovers++
	took := time.Duration(h.acquired - end)
	t.Longest = max(t.Longest, took.Round(time.Millisecond))
	line := s.bar(end, h.acquired, "handover", fmt.Sprintf("from %s to %s in %v", before.client, h.client, took.Round(time.Microsecond)))
	if line.until-line.X >= minBar {
		r.Lines = append(r.Lines, line)
	}
}

// add draws a hold, unless it is within the last one's pixel: a page must not grow with the
// number of holds.
func (r *row) add(b bar) {
	if n := len(r.Bars); n > 0 && b.until-r.Bars[n-1].X < minBar {
		return
	}
	r.Bars = append(r.Bars, b)
}

// shownEnd is when a hold was over, or the last moment at which its holder, which may have been
// killed, found it valid.
func shownEnd(s scale, h *hold) int64 {
	for _, at := range []int64{h.lost, h.releasing, h.released} {
		if at != 0 {
			return at
		}
	}
	return min(h.lastValid, s.end)
}

// class has a colour for each client. What was started again in its place has the same one.
func class(h *hold) string {
	client, _, _ := strings.Cut(h.client, ".")
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(client)) // never fails
	kind := fmt.Sprintf("c%d", sum.Sum32()%hues)
	if h.shared {
		kind += " shared"
	}
	return kind
}
