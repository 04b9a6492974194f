// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	cron "github.com/gocurator/curator/recipes/schedule"
)

// TestWorkloadScheduleJudgeOfTicks: a tick that has succeeded twice, is missing, has not succeeded, or is over after a later one is found.
func TestWorkloadScheduleJudgeOfTicks(t *testing.T) {
	spec := lockSpec{Name: "schedule-s", Workload: "schedule"}
	tick := func(n int) time.Time { return time.Unix(int64(n), 0).UTC() }
	// state is where a job stands after runs of these ticks, the newest first.
	state := func(ticks ...int) cron.Status {
		s := cron.Status{Last: tick(ticks[0]), Running: &cron.Run{Tick: tick(ticks[0] + 1)}}
		for _, n := range ticks {
			s.History = append(s.History, cron.Run{Tick: tick(n), Outcome: cron.Succeeded})
		}
		return s
	}
	failed := state(2, 1)
	failed.History[0].Outcome = cron.Interrupted
	for name, c := range map[string]struct {
		then []cron.Status // after the first tick
		want []promise
	}{
		"in order":                {[]cron.Status{state(1), state(2, 1), state(3, 2, 1), state(3, 2, 1)}, nil},
		"a tick twice":            {[]cron.Status{state(2, 1), state(2, 2, 1), state(3, 2, 2, 1)}, []promise{onceATick}},
		"a tick that is lost":     {[]cron.Status{state(3, 1), state(4, 3, 1)}, []promise{noTickLost}},
		"a tick without success":  {[]cron.Status{failed, state(3, 2, 1)}, []promise{noTickLost}},
		"a tick after the next":   {[]cron.Status{state(3, 1), state(2, 3, 1)}, []promise{noTickLost, ticksInOrder}},
		"a state that is deleted": {[]cron.Status{{}}, []promise{noTickLost}},
	} {
		var writes []logWrite
		for _, s := range append([]cron.Status{{}, {Last: tick(0)}, state(1)}, c.then...) {
			data, err := json.Marshal(s)
			require.NoError(t, err)
			writes = append(writes, logWrite{data: string(data), deleted: s.Last.IsZero() && len(writes) > 0})
		}
		r := &roundReport{log: &transactionLog{writes: map[string][]logWrite{jobPath(spec, "j1") + "/state": writes}}}
		var found []promise
		for _, v := range wrongTicks(r, spec) {
			found = append(found, v.promise)
		}
		require.Equal(t, c.want, found, name)
	}
}

func TestWorkloadScheduleBehind(t *testing.T) {
	since := time.Unix(10, 0)
	var all []cron.Entry
	for _, name := range jobNames {
		require.Error(t, behind(all, since))
		all = append(all, cron.Entry{Name: name, Status: cron.Status{Succeeded: since.Add(time.Second)}})
	}
	require.NoError(t, behind(all, since))
	all[1].Succeeded = since
	require.ErrorContains(t, behind(all, since), "the last tick of j1 that has succeeded")
}
