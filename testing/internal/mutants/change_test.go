// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// gate has what changes are made to. Each local variable could have another name.
const gate = `package gate

func (g *Gate) Enter(key int) error {
	if now := g.clock.Now(); g.closed || now < g.opens {
		return errClosed
	}
	switch {
	case key == 0:
		return errNoKey
	case g.inside >= limit:
		g.log.Print("full")
		return errFull
	}
	g.inside++
	g.last = Visit{Key: key, Open: key > 1}
	select {
	case <-g.quit:
		return errClosed
	case g.visits <- g.last:
	}
	return nil
}
`

// TestChangesFindTheirPlaces: each line of want replaces the line of the gate before the arrow.
func TestChangesFindTheirPlaces(t *testing.T) {
	for _, c := range []struct {
		change    change
		old, want string
	}{
		{negate("closed"), "g.closed ||", "!(g.closed) ||"},
		{negate("closed", "opens"), "g.closed || now < g.opens {", "!(g.closed || now < g.opens) {"},
		{always("opens"), "now < g.opens", "(now < g.opens || true)"},
		{never("0"), "case key == 0", "case (key == 0 && false)"},
		{boundary("inside"), "g.inside >= limit", "g.inside > limit"},
		{boundary("Open"), "key > 1", "key >= 1"}, // the comparison itself mentions nothing
		{drop("inside="), "g.inside++", "if false { g.inside++ }"},
		{drop("return", "errFull"), "return errFull", "if false { return errFull }"},
		{drop("quit"), "case <-g.quit:\n\t\treturn errClosed", ""},
		{postpone("Print()"), `g.log.Print("full")`, `defer g.log.Print("full")`},
		{become("$r.other($1, $0)", "Now()"), "g.clock.Now()", "g.other(key, g.clock.Now())"},
		{become("Key: 1", "Key"), "Key: key", "Key: 1"},
		{begin("$r.see($1)"), "error {", "error { g.see(key); "},
	} {
		t.Run(c.change.String(), func(t *testing.T) {
			require.Equal(t, replaced(t, gate, c.old, c.want), string(must.Get(c.change.apply(gateFunction(t)))(t)))
		})
	}
}

func TestChangesNeedOnePlace(t *testing.T) {
	for _, c := range []struct {
		change change
		want   string
	}{
		{never("opened"), "never(opened) is possible at 0 places in (*Gate).Enter"},
		{never("now"), "at 0 places"}, // a local variable
		{never("Now"), "at 2 places"}, // in the statement that calls it
		{drop("return"), "at 5 places"},
	} {
		_, err := c.change.apply(gateFunction(t))
		require.ErrorContains(t, err, c.want)
	}
}

func TestChangeRowNeedsItsFunction(t *testing.T) {
	root := gateRoot(t)
	for in, want := range map[string]string{
		"gate.Enter":         "gate has 0 functions Enter, expected one",
		"gate.(*Gate).Leave": "gate has 0 functions (*Gate).Leave, expected one",
		"door.(*Gate).Enter": "door has 0 functions (*Gate).Enter, expected one",
	} {
		_, err := row{in: in, change: never("closed")}.mutant(root)
		require.ErrorContains(t, err, want)
	}
}

// gateRoot returns the root of a tree that has the gate.
func gateRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "gate"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(root, "gate", "gate.go"), []byte(gate), 0o600))
	return root
}

func gateFunction(t *testing.T) *function {
	t.Helper()
	f := must.Get(findFunction(gateRoot(t), "gate", "(*Gate).Enter"))(t)
	return f
}

// replaced returns text with a part that it has once replaced.
func replaced(t *testing.T, text, old, with string) string {
	t.Helper()
	require.Equal(t, 1, strings.Count(text, old), "%q", old)
	return strings.Replace(text, old, with, 1)
}
