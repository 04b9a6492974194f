// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// summaryFile is where the outcome of a campaign is saved, in the folder of its report.
const summaryFile = "summary.json"

// shownViolations is how many violations of each promise are printed with their evidence.
const shownViolations = 10

// summary is the outcome of a campaign.
type summary struct {
	Line       string          `json:"line"`
	Seed       uint64          `json:"seed"`
	Versions   []string        `json:"versions"`
	Duration   time.Duration   `json:"duration"` // nanoseconds
	Kinds      map[string]int  `json:"kinds"`    // of faults, how often
	Floors     []floor         `json:"floors"`
	Bounds     []bound         `json:"bounds"`
	Breaches   map[promise]int `json:"breaches"`
	Violations []string        `json:"violations"`
	Void       []string        `json:"void"` // the rounds that do not count, and why

	promises []promise // in the order of the line
}

// judge runs all checkers on the report of a campaign, prints what they find, and saves a summary
// beside the report. It returns an error unless every promise was kept, every floor
// reached and every bound kept. It is the same for a campaign that has just ended and for one
// of long ago.
//
// Rounds are judged one after the other, so that only one has to fit into memory.
func judge(w io.Writer, folder string) error {
	record, err := loadCampaign(folder)
	if err != nil {
		return err
	}
	s := newSummary(record)
	happened, measured := newTotals(), newMeasurements(record)
	happened.byKind = s.Kinds
	for _, round := range record.Rounds {
		r, err := loadRound(filepath.Join(folder, round.Folder), round)
		if err != nil {
			return err
		}
		lost, uncounted := r.losses(), 0
		for _, check := range checks {
			found, err := check.find(r)
			if err != nil {
				return err
			}
			if len(lost) == 0 || !check.servers {
				s.add(name(found))
				continue
			}
			uncounted += len(found)
		}
		if len(lost) > 0 {
			s.Void = append(s.Void, fmt.Sprintf("%s (%d violations by what these servers say do not count)", void(r, lost), uncounted))
			continue
		}
		happened.add(r)
		measured.add(r)
	}
	s.conclude(record, happened, measured)
	var page strings.Builder
	s.write(&page, record)
	if _, err := io.WriteString(w, page.String()); err != nil {
		return fmt.Errorf("nemesis: report: %w", err)
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("nemesis: summary: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, summaryFile), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("nemesis: summary: %w", err)
	}
	return s.verdict()
}

// void tells why a round does not count.
func void(r *roundReport, lost []string) string {
	return fmt.Sprintf("%s is void, for its servers have lost what they had acknowledged: %s", r.record.Folder, strings.Join(lost, "; "))
}

func newSummary(record *campaignRecord) *summary {
	s := &summary{
		Seed: record.Seed, Versions: record.Versions, Duration: time.Duration(record.Duration),
		Kinds: make(map[string]int), Breaches: make(map[promise]int),
	}
	for _, kind := range record.Kinds {
		s.Kinds[kind.Fault] = 0
	}
	s.promises = promisesOf(record)
	for _, p := range s.promises {
		s.Breaches[p] = 0
	}
	return s
}

// add counts violations, and keeps the text of the first ones of each promise.
func (s *summary) add(found []violation) {
	slices.SortStableFunc(found, func(a, b violation) int { return cmp.Compare(a.at, b.at) })
	for _, v := range found {
		if s.Breaches[v.promise] < shownViolations {
			s.Violations = append(s.Violations, v.String())
		}
		s.Breaches[v.promise] += max(v.count, 1)
	}
}

// conclude puts floors against what has happened, and writes the last line.
func (s *summary) conclude(record *campaignRecord, t *totals, m *measurements) {
	s.Bounds = m.bounds()
	if record.Soak {
		s.Floors = t.soakFloors(s.Duration, m.memory.Cases)
	} else {
		s.Floors = append(t.floors(s.Duration, record.Kinds), t.rights()...)
	}
	var line strings.Builder
	fmt.Fprintf(&line, "acquisitions=%d faults=%d kinds=%d expirations=%d lost_while_held=%d cleanups_max=%d",
		t.acquisitions, t.faults, t.kinds(), t.expirations, t.lostWhileHeld, t.cleanups)
	for _, p := range s.promises {
		fmt.Fprintf(&line, " %s=%d", p, s.Breaches[p])
	}
	s.Line = line.String()
}

// writeFaults prints what was done, and when.
func writeFaults(b *strings.Builder, record *campaignRecord) {
	for _, r := range record.Rounds {
		fmt.Fprintf(b, "round %s: %s, session timeout %v, %d locks, %v\n", r.Folder, r.Setup,
			time.Duration(r.SessionTimeout), len(r.Locks), time.Duration(r.End-r.Start).Round(time.Second))
		for _, f := range r.Faults {
			fmt.Fprintln(b, f.line(r.Start))
		}
	}
}

// write prints the outcome.
func (s *summary) write(b *strings.Builder, record *campaignRecord) {
	writeFaults(b, record)
	b.WriteString("\nfaults by kind\n")
	for _, kind := range record.Kinds {
		done := fmt.Sprint(s.Kinds[kind.Fault])
		if kind.Cannot != "" {
			done = "cannot be done here: " + kind.Cannot
		}
		fmt.Fprintf(b, "  %-4s %-42s %s\n", kind.Fault, kind.Name, done)
	}
	fmt.Fprintf(b, "\n%-47s %10s %10s\n", "floors", "at least", "actual")
	for _, f := range s.Floors {
		fmt.Fprintf(b, "  %-45s %10d %10d  %s\n", f.Name, f.Want, f.Actual, mark(f.met()))
	}
	b.WriteString("\nbounds\n")
	for _, bound := range s.Bounds {
		fmt.Fprintf(b, "  %v %s\n", bound, mark(bound.met()))
	}
	for _, told := range s.Void {
		fmt.Fprintf(b, "\n%s\n", told)
	}
	for _, v := range s.Violations {
		fmt.Fprintf(b, "\nviolation of %s\n", v)
	}
	fmt.Fprintf(b, "\nseed %d, %s, %v\n%s\n", s.Seed, strings.Join(s.Versions, ", "), s.Duration.Round(time.Second), s.Line)
}

// mark is what stands behind a figure.
func mark(ok bool) string {
	if ok {
		return "ok"
	}
	return "MISSED"
}

// verdict is an error unless everything is as it must be.
func (s *summary) verdict() error {
	var wrong []string
	for _, p := range s.promises {
		if n := s.Breaches[p]; n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s is %d, must be 0", p, n))
		}
	}
	for _, f := range s.Floors {
		if !f.met() {
			wrong = append(wrong, fmt.Sprintf("%s is %d, must be at least %d", f.Name, f.Actual, f.Want))
		}
	}
	for _, b := range s.Bounds {
		if !b.met() {
			wrong = append(wrong, b.String())
		}
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("nemesis: %s", strings.Join(wrong, "; "))
}
