// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The door is a product small enough to see all of: a package of three
// functions, and tests of every kind that the runner has to tell apart.
const (
	doorFile = "door/door.go"

	doorSource = `package door

import "net"

var dial = net.Dial

func Opens(key int) bool { return key == 42 }

func Wait(done <-chan struct{}) { <-done }

func Close(done chan<- struct{}) { close(done) }
`

	doorTests = `package door

import "testing"

func TestStrict(t *testing.T) {
	for name, c := range map[string]struct{ key int; want bool }{
		"right": {42, true}, "wrong": {41, false},
	} {
		t.Run(name, func(t *testing.T) {
			if Opens(c.key) != c.want {
				t.Fatalf("Opens(%d) is %t", c.key, !c.want)
			}
		})
	}
}

func TestLax(t *testing.T) {
	if !Opens(42) {
		t.Fatal("the right key does not open")
	}
}

func TestClose(t *testing.T) {
	done := make(chan struct{})
	go Close(done)
	Wait(done)
}

func TestSkipped(t *testing.T) { t.Skip("not here") }

func TestBroken(t *testing.T) { t.Fatal("fails anyway") }
`

	doorMain = `package door

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	status := m.Run()
	if !Opens(42) {
		status = 1
	}
	os.Exit(status)
}
`
)

// newDoor writes the door's module to a new directory and returns its path.
func newDoor(t *testing.T) string {
	t.Helper()
	t.Setenv("GOWORK", "off") // a workspace around the temporary directory is none of its business
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, "door"), 0o750))
	for name, text := range map[string]string{
		"go.mod":            "module " + product + "\n\ngo 1.26\n",
		doorFile:            doorSource,
		"door/door_test.go": doorTests,
		"door/main_test.go": doorMain,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

// doorMutant returns a mutant of the door that has changed in the place of original and must
// be noticed by test.
func doorMutant(name, original, changed, test string, flags ...string) mutant {
	return mutant{
		name: name, breaks: "The door opens for the right key only.",
		file: doorFile, changed: []byte(strings.Replace(doorSource, original, changed, 1)),
		pkg: "door", test: test, flags: flags,
	}
}

// doorRow returns a row for the door.
func doorRow(name string, c change, test string) row {
	return row{name: name, breaks: "The door opens for the right key only.", in: "door.Opens", change: c, test: test}
}
