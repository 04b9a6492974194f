// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

const zeros = " overlaps=0 token_regressions=0 lost_updates=0 illegal=0 unknown=0 fifo_inversions=0 over_permits=0 orphans=0 watches=0 stuck=0"

func TestReportJudgeAGoodCampaign(t *testing.T) {
	t.Parallel()
	folder := goodPlan().save(t)
	var page strings.Builder
	require.NoError(t, judge(&page, folder))
	require.Contains(t, page.String(), "20ms       30ms  N1   kill: server 2")
	require.Contains(t, page.String(), "cannot be done here: no such thing here")
	lines := strings.Split(strings.TrimSpace(page.String()), "\n")
	const line = "acquisitions=3 faults=1 kinds=1 expirations=0 lost_while_held=0 cleanups_max=0" + zeros
	require.Equal(t, line, lines[len(lines)-1])

	var s summary
	require.NoError(t, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(folder, summaryFile)))(t), &s))
	require.Equal(t, line, s.Line)
	require.Equal(t, uint64(7), s.Seed)

	var again strings.Builder // a replay says the same
	require.NoError(t, judge(&again, folder))
	require.Equal(t, page.String(), again.String())
}

// Every breach is found, counted under its name and nowhere else, and fails the campaign.
func TestReportJudgeFindsEveryBreach(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		broken string // with the number 1 each
		spoil  func(*plan)
	}{
		{"overlaps", func(p *plan) { p.committed[3].time += 5 }}, // the servers know better
		{"overlaps illegal", func(p *plan) {
			p.add("a", take("a", "handoff-s", 10, 50, 60)...)
			p.add("b", take("b", "handoff-s", 11, 55, 58)...)
			p.committed = nil
		}},
		{"token_regressions", func(p *plan) { p.committed[2].zxid = 9 }},
		{"token_regressions illegal fifo_inversions", func(p *plan) {
			p.add("a", take("a", "reentrant-s", 11, 50, 55)...)
			p.add("b", take("b", "reentrant-s", 10, 56, 60)...)
			p.committed = nil
		}},
		{"lost_updates", func(p *plan) { p.round().Sets["mutex-s"] = nil }},
		{"over_permits illegal", func(p *plan) {
			for n, client := range []string{"a", "b", "a"} {
				p.add(client, take(client, "semaphore-s", 10+n, 50+int64(n), 60)...)
			}
			p.committed = nil
		}},
		{"orphans", func(p *plan) { p.round().Left.LockNodes = 1 }},
		{"watches", func(p *plan) { p.round().After.Watches = 1 }},
		{"stuck", func(p *plan) { p.round().Stuck = []string{"mutex-s"} }},
	} {
		t.Run(test.broken, func(t *testing.T) {
			t.Parallel()
			p := goodPlan()
			test.spoil(p)
			var page strings.Builder
			err := judge(&page, p.save(t))
			require.ErrorContains(t, err, "is 1, must be 0")
			want := zeros
			for key := range strings.FieldsSeq(test.broken) {
				require.ErrorContains(t, err, key+" is 1, must be 0")
				require.Contains(t, page.String(), "violation of "+key)
				want = strings.Replace(want, key+"=0", key+"=1", 1)
			}
			require.Contains(t, page.String(), want)
		})
	}
}

func TestReportJudgeWantsFloorsAndBounds(t *testing.T) {
	t.Parallel()
	p := goodPlan()
	p.record.Duration = int64(300 * time.Millisecond)
	var page strings.Builder
	require.EqualError(t, judge(&page, p.save(t)), "nemesis: acquisitions is 3, must be at least 10")
	require.Regexp(t, `acquisitions +10 +3  MISSED`, page.String())

	p.record.Soak = true // which has no faults, and counts only that nothing grows
	require.NoError(t, judge(&page, p.save(t)))

	p = goodPlan()
	p.round().End = at(60_000)
	p.round().Faults[0].End = at(36)
	require.ErrorContains(t, judge(&page, p.save(t)), "from the end of a fault to the next acquisition, most: 60 s in 1 cases (at most 10 s)")
}

// What is missing or damaged proves nothing.
func TestReportJudgeWantsAWholeReport(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	require.ErrorContains(t, judge(&page, t.TempDir()), "campaign.json: no such file")
	for want, spoil := range map[string]func(folder string) error{
		"campaign.json: unexpected end":            func(f string) error { return os.Truncate(filepath.Join(f, campaignFile), 0) },
		"0 rounds and 0s of faults, expected more": func(f string) error { return os.WriteFile(filepath.Join(f, campaignFile), []byte("{}"), 0o600) },
		"is missing, the history of a client": func(f string) error {
			return errors.Join(os.Remove(f+"/round1/a.jsonl"), os.Remove(f+"/round1/b.jsonl"))
		},
		"a.jsonl: line 1: invalid character":    func(f string) error { return os.WriteFile(f+"/round1/a.jsonl", []byte("?\n"), 0o600) },
		"has no log, the servers' transactions": func(f string) error { return os.RemoveAll(f + "/round1/log") },
		"log.1: not a transaction log":          func(f string) error { return os.WriteFile(f+"/round1/log/2/log.1", []byte("?"), 0o600) },
		"of hold h, which was not acquired": func(f string) error {
			return os.WriteFile(f+"/round1/a.jsonl", []byte(`{"kind":"lost","hold":"h"}`+"\n"), 0o600)
		},
		"is of an unknown lock, or there are": func(f string) error {
			return os.WriteFile(f+"/round1/a.jsonl", []byte(`{"kind":"acquired","hold":"h","lock":"x"}`+"\n"), 0o600)
		},
	} {
		folder := goodPlan().save(t)
		require.NoError(t, spoil(folder))
		require.ErrorContains(t, judge(&page, folder), want)
	}
}
