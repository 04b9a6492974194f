// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// general are the changes of a random mutant: a condition that is turned around, a
// statement that is left out, and a number that is greater by one.
var general = []change{
	negate(),
	{what: "drop", sites: simpleStatements},
	{what: "increase", sites: constants},
}

// errNoGo says that no package is named and none has changed.
var errNoGo = errors.New("mutants: no package with Go files is named, and none has changed")

// tryRandom applies n random changes, one at a time, to the packages in the folders, runs
// the quick tests of the package that was changed, and writes the survivors to stdout.
// A survivor is no error: it is for a reader to judge, since many a statement is there for
// speed or for a message.
func tryRandom(ctx context.Context, folders []string, n int, seed uint64, atATime int, stdout, stderr io.Writer) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	if len(folders) == 0 {
		if folders, err = touched(ctx, root); err != nil {
			return err
		}
	}
	mutants, err := randomMutants(root, folders, n, seed)
	if err != nil {
		return err
	}
	verdicts, err := runMutants(ctx, root, mutants, atATime, stderr)
	return errors.Join(reportSurvivors(stdout, verdicts), err)
}

// touched returns the folders of the Go files that differ from the last commit but one.
func touched(ctx context.Context, root string) ([]string, error) {
	git := exec.CommandContext(ctx, "git", "diff", "--name-only", "--relative", "--diff-filter=d", "HEAD~1")
	git.Dir = root
	out, err := git.Output()
	if err != nil {
		return nil, fmt.Errorf("mutants: git diff: %w", err)
	}
	var folders []string
	for file := range strings.FieldsSeq(string(out)) {
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			folders = append(folders, path.Dir(file))
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders), nil
}

// randomMutants draws n mutants of the packages in the folders, or all that there are.
func randomMutants(root string, folders []string, n int, seed uint64) ([]mutant, error) {
	var all []mutant
	for _, folder := range folders {
		folder = path.Clean(strings.TrimPrefix(folder, "./"))
		found, err := functions(root, folder, "")
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			for _, c := range general {
				for _, s := range c.sites(f) {
					all = append(all, randomMutant(folder, f, c, s))
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, errNoGo
	}
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a sample, not a secret
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))], nil
}

// randomMutant returns the mutant that changes one site, which all tests of its package may notice.
func randomMutant(folder string, f *function, c change, s site) mutant {
	code, _, _ := strings.Cut(f.text(s.node.Pos(), s.node.End()), "\n")
	return mutant{
		name:   fmt.Sprintf("%s:%d", f.file, f.line(s.from)),
		breaks: fmt.Sprintf("%s %s", c.what, code),
		file:   f.file, changed: f.with(s.from, s.to, s.text),
		pkg: folder, test: ".", flags: []string{"-short"},
	}
}

// reportSurvivors writes the mutants that no test has noticed to w, and how many were
// tried. A mutant that does not compile is not counted.
func reportSurvivors(w io.Writer, verdicts []verdict) error {
	var lines []string
	tried, survivors := 0, 0
	var failure error
	for _, v := range verdicts {
		switch {
		case errors.Is(v.err, errNotBuilt):
		case v.err != nil:
			failure = cmp.Or(failure, v.err)
		case !v.ok():
			survivors++
			lines = append(lines, fmt.Sprintf("%s: %s\n", v.mutant.name, v.mutant.breaks))
			fallthrough
		default:
			tried++
		}
	}
	slices.Sort(lines)
	lines = append(lines, fmt.Sprintf("%d of %d random changes were noticed by no test\n", survivors, tried))
	_, err := io.WriteString(w, strings.Join(lines, ""))
	return errors.Join(failure, err)
}
