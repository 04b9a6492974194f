// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// circles has, for each package with files that name each other in a circle, the number of files
// in its largest circle. No number may rise. A package that is below its number fails too, so that the number
// follows it. A package without a row has no circle.
//
// Files that name each other can only be understood together. A feature belongs into files that
// name the core of their package, and that the core does not name.
var circles = map[string]int{
	"cmd/curatorctl":                  6,
	"cmd/curatorctl/internal/inspect": 4,
	"cmd/curatorctl/internal/page":    6,
	"examples/quickstart":             2,
	"framework":                       6,
	"framework/internal/conduit":      8,
	"framework/internal/janitor":      2,
	"framework/internal/watching":     4,
	"internal/testkit/hardship":       2,
	"recipes/cache":                   4,
	"recipes/discovery":               3,
	"recipes/internal/attempt":        2,
	"recipes/leader":                  2,
	"recipes/locks":                   6,
	"recipes/migration":               2,
	"recipes/nodes":                   2,
	"recipes/queues":                  3,
	"recipes/x/partition":             3,
	"recipes/x/schedule":              4,
	"recipes/x/txn":                   4,
	"retry":                           2,
	"testing/checker":                 2,
	"testing/ensemble":                11,
	"testing/internal/bench":          14,
	"testing/internal/mutants":        7,
	"testing/internal/nemesis":        34,
	"testing/zkproxy":                 6,
	"testing/zkserver":                15,
	"testing/zksim":                   4,
	"testing/zktest":                  3,
}

// TestCirclesOnlyShrink compares the packages of each module, without tests, with the table. With -v it lists the
// arrows of each circle: a file, one that it names, and the names.
func TestCirclesOnlyShrink(t *testing.T) {
	module, packages := repository(t), newLoader()
	rows := maps.Clone(circles)
	for _, name := range module.files {
		folder := path.Dir(name)
		if path.Base(name) != "go.mod" || folder == "tools" || strings.HasPrefix(folder, "examples/") {
			continue
		}
		t.Run(folder, func(t *testing.T) {
			t.Chdir(filepath.Join(root, folder))
			packs := must.Get(packages.load(t.Context(), []string{"./..."}))(t)
			for _, p := range packs {
				place := cmp.Or(strings.TrimPrefix(strings.TrimPrefix(p.name, modulePath), "/"), ".")
				checkCircle(t, place, p.arrows(), circles[place])
				delete(rows, place)
			}
		})
	}
	require.Empty(t, rows, "rows of packages that do not exist")
}

func checkCircle(t *testing.T, place string, arrows map[string]map[string][]string, expected int) {
	t.Helper()
	circle := largestCircle(arrows)
	slices.Sort(circle)
	var list strings.Builder
	for _, from := range circle {
		for _, to := range circle {
			if names := arrows[from][to]; len(names) > 0 {
				fmt.Fprintf(&list, "\t%s -> %s: %s\n", from, to, strings.Join(names, ", "))
			}
		}
	}
	switch got := len(circle); {
	case got > expected:
		t.Errorf("%s: %d files name each other in a circle, expected %d at most. Cut an arrow:\n%s", place, got, expected, &list)
	case got < expected:
		t.Errorf("%s: %d files name each other in a circle, and the table allows %d: lower its number", place, got, expected)
	case got > 0:
		t.Logf("%s: %d files\n%s", place, got, &list)
	}
}

// arrows returns for each file of a package the files that it names, with the names in order: of types, functions and
// values, and also of methods and fields.
func (p pack) arrows() map[string]map[string][]string {
	base := func(of interface{ Pos() token.Pos }) string { return filepath.Base(p.fset.Position(of.Pos()).Filename) }
	arrows := make(map[string]map[string][]string)
	for _, file := range p.files {
		arrows[base(file)] = make(map[string][]string)
	}
	for ident, object := range p.uses {
		from := base(ident)
		if object.Pkg() != p.types || base(object) == from {
			continue
		}
		to := base(object)
		if names := arrows[from][to]; !slices.Contains(names, ident.Name) {
			arrows[from][to] = append(names, ident.Name)
		}
	}
	for _, to := range arrows {
		for _, names := range to {
			slices.Sort(names)
		}
	}
	return arrows
}

// largestCircle returns the largest set of files each of which reaches each other one by arrows, nil if there is none.
func largestCircle(arrows map[string]map[string][]string) []string {
	reached := make(map[string]map[string]bool)
	for from := range arrows {
		seen := make(map[string]bool)
		next := []string{from}
		for len(next) > 0 {
			file := next[len(next)-1]
			next = next[:len(next)-1]
			for to := range arrows[file] {
				if !seen[to] {
					seen[to] = true
					next = append(next, to)
				}
			}
		}
		reached[from] = seen
	}
	var largest []string
	for file, seen := range reached {
		var circle []string
		for other := range seen {
			if reached[other][file] {
				circle = append(circle, other)
			}
		}
		if len(circle) > len(largest) {
			largest = circle
		}
	}
	return largest
}
