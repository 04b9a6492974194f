// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// invoke runs the command on rows and returns its exit status and its output.
func invoke(t *testing.T, rows []row, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, rows, &out, &errs)
	return status, out.String(), errs.String()
}

func TestMainRunCommandReportsSurvivors(t *testing.T) {
	t.Chdir(newDoor(t))
	rows := []row{
		doorRow("lax", always("42"), "^TestLax$"),
		doorRow("strict", always("42"), "^TestStrict$"),
		doorRow("stale", always("43"), "^TestStrict$"),
	}

	status, stdout, stderr := invoke(t, rows)
	require.Equal(t, statusFailed, status)
	require.Equal(t, `MUTANT  BREAKS                                  CAUGHT BY   RESULT
lax     The door opens for the right key only.  -           SURVIVED
strict  The door opens for the right key only.  TestStrict  caught
stale   The door opens for the right key only.  -           ERROR
`, stdout)
	require.Contains(t, stderr, "mutants: stale: always(43) is possible at 0 places in Opens, expected one")
	require.Contains(t, stderr, "mutants: 2 of 3 were not caught")

	status, stdout, _ = invoke(t, rows, "-run", "^strict$")
	require.Equal(t, statusOK, status)
	require.Contains(t, stdout, "caught")
}

// The quick tests of the door notice that the condition is negated and that the number is
// another one. They do not look at the channel.
func TestMainRunCommandTriesRandomChanges(t *testing.T) {
	t.Chdir(newDoor(t))
	require.NoError(t, os.WriteFile("door/door_test.go", []byte(quickDoorTests), 0o600))

	status, stdout, stderr := invoke(t, nil, "-random", "20", "door")

	require.Equal(t, statusOK, status, stderr)
	require.Equal(t, "door/door.go:11: drop close(done)\ndoor/door.go:9: drop <-done\n2 of 4 random changes were noticed by no test\n", stdout)
}

const quickDoorTests = `package door

import "testing"

func TestOpens(t *testing.T) {
	if !Opens(42) {
		t.Fatal("the right key does not open")
	}
	Close(make(chan struct{}))
}
`

func TestMainRunCommandRefuses(t *testing.T) {
	rows := []row{doorRow("lax", always("42"), "^TestLax$")}
	for name, c := range map[string]struct {
		rows   []row
		args   []string
		status int
		want   string
	}{
		"an unknown flag":   {rows, []string{"-bogus"}, statusUsage, "-bogus"},
		"an argument":       {rows, []string{"lax"}, statusUsage, `unexpected argument "lax"`},
		"no random change":  {rows, []string{"-random", "0"}, statusUsage, "want at least 1"},
		"none at a time":    {rows, []string{"-p", "0"}, statusUsage, "want at least 1"},
		"a bad pattern":     {rows, []string{"-run", "("}, statusUsage, "-run: error parsing regexp"},
		"no match":          {rows, []string{"-run", "strict"}, statusUsage, `-run "strict" matches none of the 1 mutants`},
		"an empty table":    {nil, nil, statusUsage, "matches none of the 0 mutants"},
		"an incomplete row": {[]row{{name: "bare"}}, nil, statusFailed, "row 0 (bare): breaks is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := invoke(t, c.rows, c.args...)
			require.Equal(t, c.status, status)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
		})
	}
}

func TestMainRunCommandNeedsAModule(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Chdir(t.TempDir())

	status, _, stderr := invoke(t, []row{doorRow("lax", always("42"), "^TestLax$")})

	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, "the module of the working directory does not know")
}
