// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
)

const (
	steps     = 600 // of a minute, in a picture
	step      = time.Minute / steps
	maxBands  = 20 // owners in a picture
	maxPhases = 5  // of one owner that are said in words
)

// minute is a picture of the last minute of a lock.
type minute struct {
	From, Until time.Time
	Since       time.Time // when the following began; what was before is not known
	Bands       []band    // by when their owners came
	More        int       // owners that are left out
}

// band is what one owner has done.
type band struct {
	Owner        string
	Turns, Lost  int
	Held, Waited time.Duration // of all turns together

	holds, waits [steps]bool
}

// minuteOf draws the turns of a lock.
func minuteOf(turns []inspect.Turn, since, until time.Time) *minute {
	if since.IsZero() || len(turns) == 0 {
		return nil
	}
	m := &minute{From: until.Add(-time.Minute), Until: until, Since: since}
	var bands []*band
	known := make(map[string]*band)
	for _, t := range turns {
		b := known[t.Owner]
		if b == nil {
			b = &band{Owner: cmp.Or(t.Owner, "(too short to be read)")}
			known[t.Owner], bands = b, append(bands, b)
		}
		b.Turns++
		if t.Lost {
			b.Lost++
		}
		left := t.Left
		if left.IsZero() {
			left = until
		}
		granted := t.Granted
		if granted.IsZero() {
			granted = left
		} else {
			b.Held += m.mark(&b.holds, granted, left)
		}
		b.Waited += m.mark(&b.waits, t.Joined, granted)
	}
	longest := slices.SortedStableFunc(slices.Values(bands), func(a, b *band) int { return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(b.Waited, a.Waited)) })
	longest = longest[:min(len(longest), maxBands)]
	for _, b := range bands {
		if slices.Contains(longest, b) {
			m.Bands = append(m.Bands, *b)
		}
	}
	m.More = len(bands) - len(m.Bands)
	return m
}

// mark marks a time, and returns how much of it is in the minute. What is short is seen, too.
func (m *minute) mark(in *[steps]bool, from, until time.Time) time.Duration {
	first, last := max(0, from.Sub(m.From)), min(time.Minute, until.Sub(m.From))
	if last <= first {
		return 0
	}
	for i := first / step; i < (last+step-1)/step; i++ {
		in[i] = true
	}
	return last - first
}

// phases returns where marks begin and end.
func phases(of [steps]bool) (found [][2]int) {
	for i, is := range of {
		switch {
		case !is:
		case i > 0 && of[i-1]:
			found[len(found)-1][1] = i + 1
		default:
			found = append(found, [2]int{i, i + 1})
		}
	}
	return found
}

// bars are marks as the path of an SVG.
func bars(of [steps]bool, top, height int) string {
	var path strings.Builder
	for _, p := range phases(of) {
		fmt.Fprintf(&path, "M%d %dh%dv%dH%dz", p[0], top, p[1]-p[0], height, p[0])
	}
	return path.String()
}

// Holds and Waits differ in form, for readers who see no colors.
func (b band) Holds() string { return bars(b.holds, 0, 12) }
func (b band) Waits() string { return bars(b.waits, 4, 4) }

// Says says what is drawn, the newest first.
func (b band) Says() string {
	return cmp.Or(strings.Join(append(said("held", b.holds), said("waited", b.waits)...), "; "), "nothing yet")
}

func said(what string, of [steps]bool) (text []string) {
	found := phases(of)
	slices.Reverse(found)
	for i, p := range found {
		if i == maxPhases {
			return append(text, fmt.Sprintf("%s %d times before", what, len(found)-i))
		}
		until := "until now"
		if p[1] < steps {
			until = fmt.Sprintf("until %.1f seconds before", float64(steps-p[1])/10)
		}
		text = append(text, fmt.Sprintf("%s from %.1f seconds before %s", what, float64(steps-p[0])/10, until))
	}
	return text
}
