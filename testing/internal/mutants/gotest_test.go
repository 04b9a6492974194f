// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGotestReadEventsNamesTheInnermostFailures(t *testing.T) {
	run, err := readEvents(strings.NewReader(`
		{"Action":"start","Package":"p"}
		{"Action":"run","Package":"p","Test":"TestA"}
		{"Action":"run","Package":"p","Test":"TestA/x"}
		{"Action":"output","Package":"p","Test":"TestA/x","Output":"got 1, want 2\n"}
		{"Action":"fail","Package":"p","Test":"TestA/x"}
		{"Action":"fail","Package":"p","Test":"TestA"}
		{"Action":"run","Package":"p","Test":"TestAB"}
		{"Action":"pass","Package":"p","Test":"TestAB"}
		{"Action":"run","Package":"p","Test":"TestC"}
		{"Action":"skip","Package":"p","Test":"TestC"}
		{"Action":"fail","Package":"p"}`), false)

	require.NoError(t, err)
	require.Equal(t, testRun{
		passed: 1, ran: 4, failed: []string{"TestA/x"}, output: "got 1, want 2\n",
	}, run)
}

func TestGotestReadEventsBlamesTestsThatNeverEnded(t *testing.T) {
	run, err := readEvents(strings.NewReader(`
		{"Action":"run","Test":"TestA"}
		{"Action":"run","Test":"TestB"}
		{"Action":"run","Test":"TestB/x"}
		{"Action":"pass","Test":"TestA"}
		{"Action":"fail"}`), false)

	require.NoError(t, err)
	require.Equal(t, []string{"TestB/x"}, run.failed)
}

func TestGotestReadEventsRefusesWhatIsNotARecord(t *testing.T) {
	_, err := readEvents(strings.NewReader("PASS\n"), true)

	require.ErrorContains(t, err, "reading the records of the test")
}
