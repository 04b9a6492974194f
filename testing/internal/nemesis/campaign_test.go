// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	campaignTime = flag.Duration("campaign", 15*time.Second, "how long TestCampaign has faults")
	campaignSeed = flag.Uint64("seed", 1, "what TestCampaign chooses them by")
)

// TestCampaign runs a campaign of all faults against all recipes, and judges it twice:
// as it ends, and from what it has saved. Other tests run beside it, so no time has a limit.
func TestCampaign(t *testing.T) {
	if testing.Short() {
		t.Skip("needs Java: an ensemble of three real servers")
	}
	folder := filepath.Join(t.TempDir(), "report")
	var out, again strings.Builder
	c := campaign{duration: *campaignTime, seed: *campaignSeed, faults: "all", locks: strings.Join(workloadNames(), ","), clients: 8, pause: time.Second, report: folder, shared: true}
	err := c.run(t.Context(), &out)
	t.Log(out.String())
	if err != nil {
		keep(t, folder)
	}
	require.NoError(t, err)
	require.NoError(t, run(context.Background(), &again, []string{"-replay", folder}))
	require.Equal(t, lastLine(out.String()), lastLine(again.String()))
}

// keep saves the report of a campaign that has failed: another one with the same seed may not fail.
func keep(t *testing.T, report string) {
	t.Helper()
	kept, err := os.MkdirTemp("", "campaign-") //nolint:usetesting // it outlives the test
	require.NoError(t, err)
	if err := os.CopyFS(kept, os.DirFS(report)); err != nil {
		t.Logf("not all of the report is kept: %v", err) // the caller reports the failure of the campaign
	}
	t.Logf("the report is in %s", kept)
}

// lastLine is the line by which campaigns are compared.
func lastLine(report string) string {
	lines := strings.Split(strings.TrimSpace(report), "\n")
	return lines[len(lines)-1]
}

// TestCampaignBadFlags are named before anything is started.
func TestCampaignBadFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a fault":                {[]string{"-faults", "N1,N99"}, `nemesis: fault "N99", expected all, none, or some of N1 to N18`},
		"a workload":             {[]string{"-workload", "mutex,unicorn"}, `nemesis: workload "unicorn", expected some of mutex,`},
		"a word":                 {[]string{"now"}, `nemesis: "now", expected flags only`},
		"a flag":                 {[]string{"-loud"}, "flag provided but not defined: -loud"},
		"no time":                {[]string{"-duration", "0s"}, "nemesis: duration 0s, expected more"},
		"no clients":             {[]string{"-clients", "3"}, "nemesis: 3 clients, expected at least 4, and at most 200"},
		"a folder that is there": {[]string{"-report", t.TempDir()}, "expected a folder that does not exist"},
		"nothing to replay":      {[]string{"-replay", t.TempDir()}, "campaign.json"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			require.ErrorContains(t, run(t.Context(), &out, c.args), c.want)
		})
	}
}
