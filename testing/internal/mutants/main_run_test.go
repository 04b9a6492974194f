package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// invoke runs the command on rows and returns its exit status and its output.
func invoke(t *testing.T, rows []mutant, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, rows, &out, &errs)
	return status, out.String(), errs.String()
}

func TestCommandReportsSurvivors(t *testing.T) {
	t.Chdir(newDoor(t))
	rows := []mutant{
		doorMutant("lax", condition, anyKey, "^TestLax$"),
		doorMutant("strict", condition, anyKey, "^TestStrict$"),
		doorMutant("stale", "key == 43", anyKey, "^TestStrict$"),
	}
	rows[1].tries = 2

	status, stdout, stderr := invoke(t, rows)
	require.Equal(t, statusFailed, status)
	require.Equal(t, `MUTANT  PROPERTY                                CAUGHT BY         RESULT
lax     The door opens for the right key only.  -                 SURVIVED, caught 0/1
strict  The door opens for the right key only.  TestStrict/wrong  caught 2/2
stale   The door opens for the right key only.  -                 ERROR
`, stdout)
	require.Contains(t, stderr, "mutants: stale: the old text occurs 0 times")
	require.Contains(t, stderr, "mutants: 2 of 3 were not caught in at least 95 % of their tries")

	status, stdout, _ = invoke(t, rows, "-run", "^strict$", "-n", "3")
	require.Equal(t, statusOK, status)
	require.Contains(t, stdout, "caught 3/3")
}

func TestCommandLists(t *testing.T) {
	rows := []mutant{
		doorMutant("lax", condition, anyKey, "^TestLax$"),
		doorMutant("strict", condition, anyKey, "^TestStrict$"),
	}

	status, stdout, stderr := invoke(t, rows, "-list", "-run", "x$")

	require.Equal(t, statusOK, status)
	require.Equal(t, "lax  The door opens for the right key only.\n", stdout)
	require.Empty(t, stderr)
}

func TestCommandRefuses(t *testing.T) {
	rows := []mutant{doorMutant("lax", condition, anyKey, "^TestLax$")}
	for name, c := range map[string]struct {
		rows   []mutant
		args   []string
		status int
		want   string
	}{
		"an unknown flag":   {rows, []string{"-bogus"}, statusUsage, "-bogus"},
		"an argument":       {rows, []string{"lax"}, statusUsage, `unexpected argument "lax"`},
		"no tries":          {rows, []string{"-n", "0"}, statusUsage, "want at least 1"},
		"none at a time":    {rows, []string{"-p", "0"}, statusUsage, "want at least 1"},
		"a bad pattern":     {rows, []string{"-run", "("}, statusUsage, "-run: error parsing regexp"},
		"no match":          {rows, []string{"-run", "strict"}, statusUsage, `-run "strict" matches none of the 1 mutants`},
		"an empty table":    {nil, nil, statusUsage, "matches none of the 0 mutants"},
		"an incomplete row": {[]mutant{{name: "bare"}}, nil, statusFailed, "row 0 (bare): property is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := invoke(t, c.rows, c.args...)
			require.Equal(t, c.status, status)
			require.Empty(t, stdout)
			require.Contains(t, stderr, c.want)
		})
	}
}

func TestCommandNeedsAModule(t *testing.T) {
	t.Setenv("GOWORK", "off")
	t.Chdir(t.TempDir())

	status, _, stderr := invoke(t, []mutant{doorMutant("lax", condition, anyKey, "^TestLax$")})

	require.Equal(t, statusFailed, status)
	require.Contains(t, stderr, "the working directory is in no Go module")
}
