// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// TestArchitectureNamesInTheArchitectureExist: each file and folder of the map is where the map
// has it, and each path and each Go name between backquotes exists.
func TestArchitectureNamesInTheArchitectureExist(t *testing.T) {
	module, text := repository(t), content(t, "ARCHITECTURE.md")
	everything := slices.Concat(module.files, module.folders)

	onTheMap := placesOnTheMap(t, text)
	require.NotEmpty(t, onTheMap)
	for _, place := range onTheMap {
		require.Contains(t, everything, place, "the map has it")
	}

	declared := declaredNames(t, module)
	for _, step := range stepsOfDiagrams(t, text) {
		require.True(t, declared[step], "a diagram has it, and there is no such method: %s", step)
	}
	quoted := regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1)
	require.NotEmpty(t, quoted)
	for _, found := range quoted {
		span := found[1]
		switch {
		case strings.HasPrefix(span, "make "), strings.HasPrefix(span, "go "): // TestDocumentsCommands
		case regexp.MustCompile(`^[\w*./-]+$`).MatchString(span) && (strings.Contains(span, "/") || strings.HasSuffix(span, ".go")):
			require.True(t, slices.ContainsFunc(everything, func(name string) bool { return endsWith(t, name, span) }), "no such place: %s", span)
		case regexp.MustCompile(`^\w+(\.\w+)*$`).MatchString(span):
			for name := range strings.SplitSeq(span, ".") {
				require.True(t, declared[name], "no such name: %s", span)
			}
		default:
			t.Errorf("neither a place nor a name, quote it otherwise: %s", span)
		}
	}
}

// stepsOfDiagrams returns the methods of the diagrams outside the map, such as "Conduit.Do": each word between
// arrows is one.
func stepsOfDiagrams(t *testing.T, text string) []string {
	t.Helper()
	before, after, found := strings.Cut(text, "\n## Map\n")
	require.True(t, found)
	_, after, found = strings.Cut(after, "\n## ")
	require.True(t, found)
	var steps []string
	for _, block := range fence.FindAllStringSubmatch(before+after, -1) {
		for line := range strings.Lines(block[2]) {
			for step := range strings.SplitSeq(line, "──>") {
				steps = append(steps, strings.TrimSpace(step))
			}
		}
	}
	require.Greater(t, len(steps), 20)
	return steps
}

// TestArchitectureMapIsComplete: each package and each module has a line of its own in the map. Each
// folder at the root has one, or a line of a folder in it. The examples have their own list; see
// TestFirstPagesAreShort.
func TestArchitectureMapIsComplete(t *testing.T) {
	module, onTheMap := repository(t), placesOnTheMap(t, content(t, "ARCHITECTURE.md"))
	packages := make(map[string]bool)
	for _, name := range module.files {
		hasCode := strings.HasSuffix(name, ".go") || path.Base(name) == "go.mod"
		if folder := path.Dir(name); hasCode && folder != "." && !strings.Contains(name, "/testdata/") {
			packages[folder] = true
		}
	}
	require.Subset(t, slices.Collect(maps.Keys(packages)), []string{"framework", "recipes/locks", "testing/internal", "tools"})
	for name := range packages {
		if !strings.HasPrefix(name, "examples/") {
			require.Contains(t, onTheMap, name, "the map lacks a package")
		}
	}
	for _, folder := range module.folders {
		if strings.Contains(folder, "/") || folder == "." || folder == "bin" { // git ignores bin
			continue
		}
		require.True(t, slices.ContainsFunc(onTheMap, func(place string) bool {
			return place == folder || strings.HasPrefix(place, folder+"/")
		}), "the map lacks the folder %s", folder)
	}
}

// placesOnTheMap returns the paths in the block of the section Map, whose lines are
// indented below their folders.
func placesOnTheMap(t *testing.T, text string) []string {
	t.Helper()
	_, section, found := strings.Cut(text, "\n## Map\n")
	require.True(t, found)
	var places, folders []string
	for line := range strings.Lines(fence.FindStringSubmatch(section)[2]) {
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		for word := range strings.FieldsSeq(line) {
			folder, isFolder := strings.CutSuffix(word, "/")
			switch {
			case isFolder:
				folders = append(folders[:depth], folder)
				places = append(places, path.Join(folders...))
			case strings.HasSuffix(word, ".go"):
				places = append(places, path.Join(append(slices.Clone(folders[:depth]), word)...))
			}
			if !strings.HasSuffix(word, ".go") {
				break // the rest of the line says what it is
			}
		}
	}
	return places
}

// endsWith reports whether the last elements of name match the pattern.
func endsWith(t *testing.T, name, pattern string) bool {
	t.Helper()
	pattern = strings.TrimSuffix(pattern, "/")
	elements := strings.Split(name, "/")
	n := strings.Count(pattern, "/") + 1
	if len(elements) < n {
		return false
	}
	matched := must.Get(path.Match(pattern, strings.Join(elements[len(elements)-n:], "/")))(t)
	return matched
}

// declaredNames returns the names of packages, functions, types, values, fields and
// methods of the module, and methods also with their types, such as "Conduit.Do".
func declaredNames(t *testing.T, module tree) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, name := range module.files {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution))(t)
		names[file.Name.Name] = true
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				names[n.Name.Name] = true
				if n.Recv != nil {
					names[receiver(n.Recv.List[0].Type)+"."+n.Name.Name] = true
				}
			case *ast.TypeSpec:
				names[n.Name.Name] = true
			case *ast.ValueSpec:
				for _, ident := range n.Names {
					names[ident.Name] = true
				}
			case *ast.Field:
				for _, ident := range n.Names {
					names[ident.Name] = true
				}
			}
			return true
		})
	}
	return names
}

// receiver returns the name of the type of a method.
func receiver(of ast.Expr) string {
	switch e := of.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

// TestArchitectureLayersOfFramework: in package framework, no file of a layer of the document names one of a later layer.
func TestArchitectureLayersOfFramework(t *testing.T) {
	_, text, found := strings.Cut(content(t, "ARCHITECTURE.md"), "\nRead package framework from below. No file of a layer names one of a later layer:\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n## ")
	layers := regexp.MustCompile(`(?m)^\d\. `).Split(text, -1)[1:]
	require.Len(t, layers, 6)
	layerOf := func(file string) int { // -1 for a file that the document does not place
		return slices.IndexFunc(layers, func(layer string) bool {
			return slices.ContainsFunc(regexp.MustCompile("`([^`]+\\.go)`").FindAllStringSubmatch(layer, -1), func(named []string) bool {
				return endsWith(t, file, named[1])
			})
		})
	}
	t.Chdir(root)
	packs := must.Get(load(t.Context(), []string{"./framework"}))(t)
	placed := make(map[int]bool)
	for from, others := range packs[0].arrows() {
		placed[layerOf(from)] = true
		for to, names := range others {
			if layerOf(from) >= 0 {
				require.LessOrEqual(t, layerOf(to), layerOf(from), "%s -> %s: %s", from, to, names)
			}
		}
	}
	for layer := range layers {
		require.True(t, placed[layer], "layer %d", layer+1)
	}
}
