// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// root is the module, as a test of this package sees it.
const root = "../../.."

// fence matches a block of code in a document: its language and its content.
var fence = regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```\n")

// TestDocumentsProgramsOfTheDocumentsAreTested: each block of Go in a document stands, line by
// line, in a test or in a program that has a test beside it. The block may be indented
// less than the program.
func TestDocumentsProgramsOfTheDocumentsAreTested(t *testing.T) {
	module := repository(t)
	var tested []string
	for _, name := range module.files {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "examples/") && strings.HasSuffix(name, ".go") {
			tested = append(tested, unindented(content(t, name)))
		}
	}
	blocks := 0
	for _, name := range module.files {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, block := range fence.FindAllStringSubmatch(content(t, name), -1) {
			if block[1] != "go" {
				continue
			}
			blocks++
			program := "\n" + unindented(block[2])
			found := slices.ContainsFunc(tested, func(source string) bool { return strings.Contains(source, program) })
			require.True(t, found, "%s: no test runs this:\n%s", name, block[2])
		}
	}
	require.NotZero(t, blocks)
}

// TestDocumentsNamesOfTheDocumentsExist: each name of a package of this module between backquotes, and each test,
// is declared. The changelog also names what is gone.
func TestDocumentsNamesOfTheDocumentsExist(t *testing.T) {
	module := repository(t)
	declared := declaredNames(t, module)
	quoted := regexp.MustCompile("`\\*?(framework|locks|leader|cache|atomic|shared|barriers|queues|nodes|discovery|typed|txn|migration|fence|inspect|retry|listen|" +
		"zktest|zkserver|zkproxy|ensemble|checker)\\.([A-Z]\\w*)[`(.]")
	names := 0
	for _, name := range module.files {
		if !strings.HasSuffix(name, ".md") || name == "CHANGELOG.md" {
			continue
		}
		for _, found := range quoted.FindAllStringSubmatch(content(t, name), -1) {
			names++
			require.True(t, declared[found[2]], "%s: no such name: %s.%s", name, found[1], found[2])
		}
		for _, found := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(content(t, name), -1) {
			require.True(t, declared[found], "%s: no such test: %s", name, found)
		}
	}
	require.Greater(t, names, 20)
}

// unindented returns a program without the tabs at the beginnings of its lines.
func unindented(program string) string {
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(program, "")
}

// TestDocumentsTableOfOptionsIsComplete compares the table with the code.
func TestDocumentsTableOfOptionsIsComplete(t *testing.T) {
	text := content(t, "framework/OPTIONS.md")
	t.Chdir(root)
	packs := must.Get(load(t.Context(), []string{"./framework", "./recipes/locks"}))(t)
	var table strings.Builder
	require.NoError(t, printOptions(&table, packs))
	require.Contains(t, table.String(), "`Framework.Get`")
	_, got, found := strings.Cut(text, "\n## framework\n")
	require.True(t, found)
	require.Equal(t, table.String(), "\n## framework\n"+got, "go doc ./testing/internal/measure tells how it is written")
}

// TestDocumentsPageOfErrorsIsComplete: it names each exported error of the client and the recipes.
func TestDocumentsPageOfErrorsIsComplete(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^(?:var |\t)(Err[A-Z]\w*)(?: error)? += `)
	page := content(t, "recipes/ERRORS.md")
	errors := 0
	for _, name := range repository(t).files {
		shipped := strings.HasPrefix(name, "framework/") || strings.HasPrefix(name, "recipes/")
		if !shipped || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "internal/") {
			continue
		}
		for _, found := range declared.FindAllStringSubmatch(content(t, name), -1) {
			errors++
			in := path.Base(path.Dir(name))
			require.Regexp(t, "`("+in+"\\.)?"+found[1]+"`", page, "%s of package %s", found[1], in)
		}
	}
	require.Greater(t, errors, 30)
}

// TestDocumentsLinks: what a document of the module links to exists.
func TestDocumentsLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)`)
	links := 0
	for _, name := range repository(t).files {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, found := range link.FindAllStringSubmatch(content(t, name), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			links++
			_, err := os.Stat(filepath.Join(root, path.Dir(name), found[1]))
			require.NoError(t, err, "%s links to it", name)
		}
	}
	require.NotZero(t, links)
}

// TestDocumentsCommands: each "make target" is one of the Makefile, and each
// program or package that a document runs or tests exists, in the module of the command.
func TestDocumentsCommands(t *testing.T) {
	makefile, module := content(t, "Makefile"), repository(t)
	made := regexp.MustCompile("(?m)(?:^|`|; |' )make ([a-z-]+)")
	run := regexp.MustCompile("go (?:-C ([a-z/]+) )?(?:run|test[^`\n]*?) \\./([a-z/]+)")
	targets, programs := 0, 0
	for _, name := range module.files {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, target := range made.FindAllStringSubmatch(content(t, name), -1) {
			targets++
			require.Contains(t, makefile, "\n"+target[1]+":", name)
		}
		for _, program := range run.FindAllStringSubmatch(content(t, name), -1) {
			programs++
			folder := path.Join(program[1], program[2])
			require.Contains(t, module.folders, folder, name)
			for folder != "." && !slices.Contains(module.files, folder+"/go.mod") {
				folder = path.Dir(folder)
			}
			require.Equal(t, path.Clean(program[1]), folder, "%s: %s", name, program[0])
		}
	}
	require.NotZero(t, targets)
	require.NotZero(t, programs)
}

// TestFirstPagesAreShort: the README and the programs of examples/ stay short, and the list of
// the examples has each program.
func TestFirstPagesAreShort(t *testing.T) {
	readme := regexp.MustCompile(`(?s)<!-- until the first release -->.*<!-- from then on -->\n`).ReplaceAllString(content(t, "README.md"), "")
	require.LessOrEqual(t, strings.Count(readme, "\n"), 150)
	list := content(t, "examples/README.md")
	programs := 0
	for _, name := range repository(t).files {
		if strings.HasPrefix(name, "examples/") && path.Base(name) == "main.go" {
			programs++
			require.LessOrEqual(t, strings.Count(content(t, name), "\n"), 80, name)
			require.Contains(t, list, "]("+strings.TrimPrefix(path.Dir(name), "examples/")+"/main", name)
		}
	}
	require.Greater(t, programs, 10)
}

// TestFirstPagesInChineseSayTheSame: the page in Chinese has the programs, the figures, the commands and the links of the README.
func TestFirstPagesInChineseSayTheSame(t *testing.T) {
	english, chinese := content(t, "README.md"), content(t, "README.zh-CN.md")
	for what, expression := range map[string]string{
		"programs": "(?s)```go\n.*?```\n", "links": `\]\(([^)]+)\)`, "names and commands": "`[^`\n]+`", "figures": `[0-9][0-9,.]*[0-9] ?(?:µs|ms|/s|s\b)|202,717`,
	} {
		parts := func(text string) []string {
			text = regexp.MustCompile(`\[[^\]]*\]\(README\.[^)]*\)`).ReplaceAllString(text, "")
			found := regexp.MustCompile(expression).FindAllString(text, -1)
			slices.Sort(found)
			return found
		}
		require.NotEmpty(t, parts(english), what)
		require.Equal(t, parts(english), parts(chinese), what)
	}
}

// TestFirstPagesFiguresAreMeasured: the page of the benchmark has the figures of the README, of three servers, and
// CHOOSING.md has the same rows.
func TestFirstPagesFiguresAreMeasured(t *testing.T) {
	_, three, found := strings.Cut(content(t, "testing/internal/bench/README.md"), "\n## Three servers that force to disk\n")
	require.True(t, found)
	three, _, _ = strings.Cut(three, "\n## ")
	require.Contains(t, three, "| | here | Curator 5.4 | zk.Lock |")
	choosing := content(t, "recipes/CHOOSING.md")
	require.Contains(t, content(t, "README.md"), "| | this library | zk.Lock | Curator 5.4 |")
	rows := regexp.MustCompile(`(?m)^\| (an? turn.*|turns.*) \| (.*) \| (.*) \| (.*) \|$`).FindAllStringSubmatch(content(t, "README.md"), -1)
	require.Greater(t, len(rows), 2)
	for _, row := range rows {
		require.Contains(t, three, "\n| "+row[1]+" | "+row[2]+" | "+row[4]+" | "+row[3]+" |")
		require.Contains(t, choosing, "\n"+row[0]+"\n")
	}
}

// TestFirstPagesOfTheHouseAreShort: what contributors read stays short. Records of what was measured stand apart.
func TestFirstPagesOfTheHouseAreShort(t *testing.T) {
	for name, words := range map[string]int{
		"ARCHITECTURE.md": 3600, "CHANGELOG.md": 620, "testing/internal/nemesis/README.md": 1900, "testing/internal/bench/README.md": 1500,
	} {
		require.LessOrEqual(t, len(strings.Fields(content(t, name))), words, name)
	}
}

// tree is what the module consists of: paths relative to its root.
type tree struct{ files, folders []string }

// repository lists the module, without what git and editors keep.
func repository(t *testing.T) tree {
	t.Helper()
	var found tree
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, at)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || name == filepath.Join("tools", "bin")):
			return filepath.SkipDir
		case entry.IsDir():
			found.folders = append(found.folders, filepath.ToSlash(name))
		default:
			found.files = append(found.files, filepath.ToSlash(name))
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

// content returns the text of a file of the module.
func content(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
	return string(text)
}
