// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// TestParticipantAsJSON: no reader rounds a session, nothing is null, and what is written
// can be read.
func TestParticipantAsJSON(t *testing.T) {
	p := locks.Participant{
		Path: "/locks/a/_c_1-lock-0000000007", LockName: "lock-", Identity: "vm/42 nightly", Host: "vm", PID: 42, Label: "nightly",
		Position: 1, Sequence: 7, Token: 4294967303, Session: 72057650147491872,
		Since: time.Date(2026, 11, 22, 2, 3, 4, 5e6, time.FixedZone("", 3600)), WaitsFor: []string{"/locks/a/_c_0-lock-0000000006"},
	}
	data := must.Get(json.Marshal(p))(t)
	require.JSONEq(t, `{"path":"/locks/a/_c_1-lock-0000000007","lockName":"lock-","identity":"vm/42 nightly","host":"vm","pid":42,
		"label":"nightly","position":1,"sequence":7,"token":4294967303,"session":"0x100000d10640020",
		"since":"2026-11-22T01:03:04.005Z","holds":false,"waitsFor":["/locks/a/_c_0-lock-0000000006"]}`, string(data))
	var read locks.Participant
	require.NoError(t, json.Unmarshal(data, &read))
	require.True(t, p.Since.Equal(read.Since))
	read.Since = p.Since
	require.Equal(t, p, read)

	data = must.Get(json.Marshal([]*locks.Participant{{Session: -1, Holds: true}}))(t)
	require.NotContains(t, string(data), "null")
	require.Contains(t, string(data), `"since":"0001-01-01T00:00:00Z","holds":true,"waitsFor":[],"session":"0xffffffffffffffff"`)
	var all []locks.Participant
	require.NoError(t, json.Unmarshal(data, &all))
	require.EqualValues(t, -1, all[0].Session)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"session":"none"}`), &read), `session "none", expected 0x`)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"session":7}`), &read), "locks: participant: ")
}

// TestParticipantsAsJSON of a lock that is held and waited for.
func TestParticipantsAsJSON(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	mutex := newMutex(t, client, "/locks/a", locks.WithLabel("nightly"))
	lease := acquire(t, mutex)
	next := acquireLater(zktest.Context(t), mutex)
	participants := awaitQueue(t, mutex, 2)
	data := must.Get(json.Marshal(participants))(t)
	var shown []map[string]any
	require.NoError(t, json.Unmarshal(data, &shown))
	require.Equal(t, client.Session().String(), shown[0]["session"])
	require.Equal(t, []any{lease.Path()}, shown[1]["waitsFor"])
	require.Equal(t, "nightly", shown[1]["label"])
	release(t, lease)
	release(t, await(t, next).lease)
}
