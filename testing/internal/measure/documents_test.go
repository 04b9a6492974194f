package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the module, as a test of this package sees it.
const root = "../../.."

// fence matches a block of code in a document: its language and its content.
var fence = regexp.MustCompile("(?s)```([a-z]*)\n(.*?)```\n")

// TestProgramsOfTheReadmeAreTested: each block of Go stands, line by line, in a
// test or in a program that has a test beside it.
func TestProgramsOfTheReadmeAreTested(t *testing.T) {
	var tested []string
	for _, name := range repository(t).files {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "examples/") && strings.HasSuffix(name, ".go") {
			tested = append(tested, content(t, name))
		}
	}
	blocks := 0
	for _, block := range fence.FindAllStringSubmatch(content(t, "README.md"), -1) {
		if block[1] != "go" {
			continue
		}
		blocks++
		found := false
		for _, source := range tested {
			found = found || strings.Contains(source, block[2])
		}
		require.True(t, found, "no test runs this:\n%s", block[2])
	}
	require.NotZero(t, blocks)
}

// TestLinksOfTheDocuments: what a document of the module links to exists.
func TestLinksOfTheDocuments(t *testing.T) {
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

// TestTargetsOfTheReadme: each "make target" is one of the Makefile.
func TestTargetsOfTheReadme(t *testing.T) {
	targets := regexp.MustCompile(`make ([a-z-]+)`).FindAllStringSubmatch(content(t, "README.md"), -1)
	require.NotEmpty(t, targets)
	makefile := content(t, "Makefile")
	for _, target := range targets {
		require.Contains(t, makefile, "\n"+target[1]+":")
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
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}
