// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// campaignFile is where the record of a campaign is, in the folder of its report.
const campaignFile = "campaign.json"

// roundReport is all that is known of one ensemble's life.
type roundReport struct {
	folder string // of its histories
	record roundRecord

	events map[string][]event // by client, in the order in which it has written them
	holds  []*hold            // in the order of acquisition
	locks  map[string][]*hold // the same by lock
	log    *transactionLog    // what the servers have committed; nil if their clock is not known either
	eras   []era              // from restore to restore; the last has this log. There is none without a log

	links map[string][]link // the connections of each client; older records have none
}

// loadCampaign reads the record of a campaign back.
func loadCampaign(folder string) (*campaignRecord, error) {
	data, err := os.ReadFile(filepath.Join(folder, campaignFile))
	if err != nil {
		return nil, fmt.Errorf("nemesis: %w", err)
	}
	var record campaignRecord
	if err := json.Unmarshal(data, &record); err != nil {
		return nil, fmt.Errorf("nemesis: %s: %w", campaignFile, err)
	}
	if len(record.Rounds) == 0 || record.Duration <= 0 {
		return nil, fmt.Errorf("nemesis: %s: %d rounds and %v of faults, expected more", campaignFile, len(record.Rounds), time.Duration(record.Duration))
	}
	return &record, nil
}

// loadRound reads the histories of a round back. A missing or damaged history is an error: a
// round with an unknown part has proved nothing.
func loadRound(folder string, record roundRecord) (*roundReport, error) {
	r := &roundReport{
		folder: folder, record: record, events: map[string][]event{}, locks: map[string][]*hold{},
		links: map[string][]link{},
	}
	specs := make(map[string]lockSpec)
	for _, spec := range record.Locks {
		specs[spec.Name] = spec
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("nemesis: %w", err)
	}
	for _, client := range record.Clients {
		if file := filepath.Join(folder, client+".jsonl"); !slices.Contains(files, file) {
			return nil, fmt.Errorf("nemesis: %s is missing, the history of a client", file)
		}
	}
	if len(files) == 0 || len(record.Clients) == 0 {
		return nil, fmt.Errorf("nemesis: %s has no history of any client", folder)
	}
	for _, file := range files {
		events, err := readEvents(file)
		if err != nil {
			return nil, err
		}
		client := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		all, err := holds(events, specs)
		if err != nil {
			return nil, fmt.Errorf("%w: in %s", err, file)
		}
		r.events[client] = events
		r.connect(client, events)
		r.holds = append(r.holds, all...)
	}
	slices.SortStableFunc(r.holds, byAcquired)
	for _, h := range r.holds {
		r.locks[h.lock] = append(r.locks[h.lock], h)
	}
	if err := r.readLogs(); err != nil {
		return nil, err
	}
	if r.log == nil && record.WallOffset != 0 {
		return nil, fmt.Errorf("nemesis: %s has no log, the servers' transactions", folder)
	}
	r.completeSessions()
	r.endFromOutside()
	return r, nil
}

// completeSessions asks the servers' log for the sessions of holds whose clients got a new one while
// they acquired them, and so do not know which it is.
func (r *roundReport) completeSessions() {
	if r.log == nil {
		return
	}
	for _, h := range r.holds {
		if n := r.logAt(h.acquired).nodes[h.node]; h.session == 0 && n != nil {
			h.session = n.session
		}
	}
}

func byAcquired(a, b *hold) int { return cmp.Compare(a.acquired, b.acquired) }

// wall is a moment as the servers' logs have it: in milliseconds of the wall clock, cut off.
func (r *roundReport) wall(at int64) int64 {
	return (at + r.record.WallOffset) / int64(time.Millisecond)
}

// killed are the clients whose processes were killed.
func (r *roundReport) killed() map[string]bool {
	all := make(map[string]bool)
	for _, f := range r.record.Faults {
		if f.Killed {
			for _, client := range f.Clients {
				all[client] = true
			}
		}
	}
	return all
}

// active are the faults that had not ended at a moment between the two, and those
// that had ended no longer than a session timeout before. One that could not be done as a whole
// may have been done in part.
func (r *roundReport) active(from, to int64) (all []faultRecord) {
	for _, f := range r.record.Faults {
		if f.Start <= to && from <= f.End+r.record.SessionTimeout {
			all = append(all, f)
		}
	}
	return all
}
