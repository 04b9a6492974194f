// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shape is an element of a page's picture.
type shape struct {
	name, class, x, width, title string
}

// picture reads what a page has drawn. It fails unless the picture is well-formed.
func picture(t *testing.T, page string) []shape {
	t.Helper()
	at := strings.Index(page, "<svg")
	require.Positive(t, at)
	var shapes []shape
	for decoder := xml.NewDecoder(strings.NewReader(page[at : strings.Index(page, "</svg>")+6])); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return shapes
		}
		require.NoError(t, err)
		start, ok := token.(xml.StartElement)
		switch {
		case !ok:
		case start.Name.Local == "title":
			require.NoError(t, decoder.DecodeElement(&shapes[len(shapes)-1].title, &start))
		default:
			s := shape{name: start.Name.Local}
			for _, a := range start.Attr {
				switch a.Name.Local {
				case "class":
					s.class = a.Value
				case "x", "x1":
					s.x = a.Value
				case "width":
					s.width = a.Value
				}
			}
			shapes = append(shapes, s)
		}
	}
}

// of returns the shapes of some classes.
func of(shapes []shape, fits func(class string) bool) []shape {
	var chosen []shape
	for _, s := range shapes {
		if fits(s.class) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// pageOf judges a plan, and returns the page about its round.
func pageOf(t *testing.T, p *plan) string {
	t.Helper()
	folder := p.save(t)
	_ = judge(io.Discard, folder) // what it thinks of the campaign is not what is asked
	page, err := os.ReadFile(filepath.Join(folder, "round1.html"))
	require.NoError(t, err)
	return string(page)
}

// TestReportPageOfARound has each fault, hold, hand-over and loss at its moment. The round lasts
// 90 ms on 1,400 pixels, which begin at 230.
func TestReportPageOfARound(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.add("b", event{At: at(50), Kind: acquired, Called: at(49), Hold: "b/reentrant-s/9#0", Lock: "reentrant-s", Token: 9, Session: 'b', Node: "/n"})
	p.add("b", event{At: at(60), Kind: lost, LastValid: at(55), Hold: "b/reentrant-s/9#0", Lock: "reentrant-s"})
	page := pageOf(t, p)
	shapes := picture(t, page)
	require.Equal(t, []shape{{"rect", "fault", "541.1", "155.6", "N1 kill: server 2, 20ms to 30ms"}},
		of(shapes, func(class string) bool { return class == "fault" }))
	holds := of(shapes, func(class string) bool { return len(class) == 2 && class[0] == 'c' })
	require.Len(t, holds, 4)
	require.Equal(t, shape{"rect", holds[0].class, "307.8", "77.8", "a holds mutex-s, token 1, 5ms to 10ms"}, holds[0])
	require.Equal(t, "b holds mutex-s, token 2, 11ms to 15ms", holds[1].title)
	require.Equal(t, "a holds mutex-s, token 3, 31ms to 35ms", holds[2].title)
	require.Equal(t, "b holds reentrant-s, token 9, 50ms to 60ms", holds[3].title)
	require.Equal(t, holds[0].class, holds[2].class, "a client has one colour")
	require.NotEqual(t, holds[0].class, holds[1].class)
	handovers := of(shapes, func(class string) bool { return class == "handover" })
	require.Equal(t, []string{"from a to b in 1ms", "from b to a in 16ms"}, []string{handovers[0].title, handovers[1].title})
	require.Len(t, handovers, 2)
	require.Equal(t, []shape{{"line", "lost", "1163.3", "", "b is told at 60ms that it has lost reentrant-s, token 9"}},
		of(shapes, func(class string) bool { return class == "lost" }))
	require.Contains(t, page, "4 holds, 1 of them lost, 2 hand-overs from one client to another, the longest 16ms")
	require.NotRegexp(t, `(src|href)=|url\(|@import|<script`, page, "the page needs nothing else")
}

// TestReportPageHoldsBesideEachOther are drawn in rows of their own, and very many of them make no large
// page.
func TestReportPageHoldsBesideEachOther(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.add("a", take("a", "semaphore-s", 20, 40, 60)...)
	p.add("b", take("b", "semaphore-s", 21, 41, 61)...)
	rows := newTimeline(p.load(t)).Rows
	require.Equal(t, []string{"N1 kill", "mutex-s", "semaphore-s", ""}, []string{rows[0].Name, rows[1].Name, rows[2].Name, rows[3].Name})
	require.Len(t, rows, 4)

	var many []*hold
	for i := range int64(100_000) {
		many = append(many, &hold{client: "a", acquired: at(0) + 900*i, releasing: at(0) + 900*i + 800})
	}
	line := new(timeline)
	line.lock(scale{at(0), at(90)}, "busy", many)
	require.Len(t, line.Rows, 1)
	require.Equal(t, 100_000, line.Holds)
	require.Less(t, len(line.Rows[0].Bars), 2*pageWidth)
	require.Greater(t, len(line.Rows[0].Bars), pageWidth/2)
}

// TestReportPageNamesOnAPageAreText, whatever they are.
func TestReportPageNamesOnAPageAreText(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.round().Faults[0].Detail = `<script>alert("x")</script> & more`
	page := pageOf(t, p)
	require.NotContains(t, page, "<script")
	faults := of(picture(t, page), func(class string) bool { return class == "fault" })
	require.Contains(t, faults[0].title, p.round().Faults[0].Detail)
}

// The marks of the time line are at round times, and there are some, but not many.
func TestReportPageMarksOfATimeLine(t *testing.T) {
	for length, want := range map[time.Duration]time.Duration{
		3 * time.Second: time.Second, 90 * time.Second: 10 * time.Second, 5*time.Minute + 26*time.Second: 30 * time.Second,
		40 * time.Minute: 5 * time.Minute, 24 * time.Hour: time.Hour,
	} {
		require.Equal(t, want, time.Duration(scale{7, 7 + int64(length)}.tick()), "%v", length)
	}
}
