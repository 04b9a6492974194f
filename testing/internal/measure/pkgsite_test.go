// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// TestDocumentsOnPkgGoDev reads each package as pkg.go.dev does, which differs from go doc: no method of an exported type is
// left out, no link stays in brackets or leads to a name that is not there, and no sentence is set as code.
func TestDocumentsOnPkgGoDev(t *testing.T) {
	packages := shippedPackages(t)
	require.Greater(t, len(packages), 25)
	names := make(map[string]bool)
	for _, p := range packages {
		for _, name := range namesOf(p.published) {
			names[p.published.ImportPath+"."+name] = true
		}
	}
	for _, p := range packages {
		for _, missing := range p.missing() {
			t.Errorf("%s: pkg.go.dev does not show %s: it is promoted through two types that are not exported", p.published.ImportPath, missing)
		}
		for _, text := range textsOf(p.published) {
			for _, problem := range problemsOf(p.published, text, names) {
				t.Errorf("%s: %s", p.published.ImportPath, problem)
			}
		}
	}
}

// TestDocumentsOnPkgGoDevNotices: each problem is found.
func TestDocumentsOnPkgGoDevNotices(t *testing.T) {
	p := read(t, "example.com/p", map[string]string{"p.go": `// Package p is [Missing] and [T.Do] of Set[T].
//
//	This sentence was indented by mistake, and is no code.
//
//	func main() {}
package p

type inner struct{}

// Do does.
func (inner) Do() {}

type outer struct{ inner }

// T is a type.
type T struct{ outer }
`})
	require.Equal(t, []string{"T.Do"}, p.missing())
	require.Equal(t, []string{
		"[Missing] is no link", "[T.Do] is no link",
		`a sentence is set as code: "This sentence was indented by mistake, and is no code."`,
	}, problemsOf(p.published, p.published.Doc, nil))
}

// documented is a package as pkg.go.dev shows it, and with all methods.
type documented struct{ published, whole *doc.Package }

// shippedPackages returns the packages that programs may import, and the commands.
func shippedPackages(t *testing.T) []documented {
	t.Helper()
	sources := make(map[string]map[string]string) // of each folder
	for _, name := range repository(t).files {
		shipped := !strings.Contains(name, "internal/") && !strings.HasPrefix(name, "tools/") && !strings.Contains(name, "testdata/")
		if !shipped || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if folder := path.Dir(name); sources[folder] == nil {
			sources[folder] = make(map[string]string)
		}
		sources[path.Dir(name)][path.Base(name)] = content(t, name)
	}
	var packages []documented
	for folder, files := range sources {
		packages = append(packages, read(t, path.Join(mainModule, folder), files))
	}
	return packages
}

// read returns the documentation of a package.
func read(t *testing.T, name string, sources map[string]string) documented {
	t.Helper()
	as := func(mode doc.Mode) *doc.Package { // which takes the syntax trees for itself
		fset := token.NewFileSet()
		var files []*ast.File
		for file, text := range sources {
			parsed := must.Get(parser.ParseFile(fset, filepath.Join(name, file), text, parser.ParseComments))(t)
			files = append(files, parsed)
		}
		p := must.Get(doc.NewFromFiles(fset, files, name, mode))(t)
		return p
	}
	return documented{as(0), as(doc.AllDecls)}
}

// missing returns the methods that are not shown, neither here nor at an exported type that is embedded.
func (p documented) missing() []string {
	shown := make(map[string]bool)
	for _, name := range namesOf(p.published) {
		shown[name] = true
	}
	var missing []string
	for _, of := range p.whole.Types {
		if !token.IsExported(of.Name) {
			continue
		}
		for _, method := range of.Methods {
			name := of.Name + "." + method.Name
			if token.IsExported(method.Name) && !shown[name] && !token.IsExported(strings.TrimPrefix(method.Orig, "*")) {
				missing = append(missing, name)
			}
		}
	}
	return missing
}

// namesOf returns the names that a link may lead to, with the fields and methods of types.
func namesOf(p *doc.Package) []string {
	var names []string
	values := func(of []*doc.Value) {
		for _, v := range of {
			names = append(names, v.Names...)
		}
	}
	functions := func(of []*doc.Func) {
		for _, f := range of {
			names = append(names, f.Name)
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions(p.Funcs)
	for _, of := range p.Types {
		names = append(names, of.Name)
		values(of.Consts)
		values(of.Vars)
		functions(of.Funcs)
		for _, m := range of.Methods {
			names = append(names, of.Name+"."+m.Name)
		}
		ast.Inspect(of.Decl, func(node ast.Node) bool {
			if field, ok := node.(*ast.Field); ok {
				for _, name := range field.Names {
					names = append(names, of.Name+"."+name.Name)
				}
			}
			return true
		})
	}
	return names
}

// textsOf returns the comments of a package that are shown.
func textsOf(p *doc.Package) []string {
	texts := []string{p.Doc}
	values := func(of []*doc.Value) {
		for _, v := range of {
			texts = append(texts, v.Doc)
		}
	}
	functions := func(of []*doc.Func) {
		for _, f := range of {
			texts = append(texts, f.Doc)
		}
	}
	values(p.Consts)
	values(p.Vars)
	functions(p.Funcs)
	for _, of := range p.Types {
		texts = append(texts, of.Doc)
		values(of.Consts)
		values(of.Vars)
		functions(of.Funcs)
		functions(of.Methods)
	}
	return texts
}

var (
	bracketed = regexp.MustCompile(`\[\*?(\w+\.)?[A-Z]\w+(\.[A-Z]\w*)?\]`)
	// sentence is a line that begins in upper case, has words only, and ends as sentences do.
	sentence = regexp.MustCompile(`^[A-Z][a-z]*( [\w',;-]+){4,}[.:]?$`)
)

// problemsOf returns what is wrong with a comment, given all names of this repository with their packages.
func problemsOf(p *doc.Package, text string, names map[string]bool) []string {
	var problems []string
	spans := func(of []comment.Text) {
		for _, span := range of {
			switch s := span.(type) {
			case comment.Plain:
				for _, left := range bracketed.FindAllString(string(s), -1) {
					problems = append(problems, left+" is no link")
				}
			case *comment.DocLink:
				name := strings.TrimPrefix(s.Recv+"."+s.Name, ".")
				if strings.HasPrefix(s.ImportPath, mainModule) && s.Name != "" && !names[s.ImportPath+"."+name] {
					problems = append(problems, fmt.Sprintf("%s has no %s, to which a link leads", s.ImportPath, name))
				}
			}
		}
	}
	var blocks func(of []comment.Block)
	blocks = func(of []comment.Block) {
		for _, block := range of {
			switch b := block.(type) {
			case *comment.Heading:
				spans(b.Text)
			case *comment.Paragraph:
				spans(b.Text)
			case *comment.List:
				for _, item := range b.Items {
					blocks(item.Content)
				}
			case *comment.Code:
				for line := range strings.Lines(b.Text) {
					if line = strings.TrimSpace(line); sentence.MatchString(line) {
						problems = append(problems, fmt.Sprintf("a sentence is set as code: %q", line))
					}
				}
			}
		}
	}
	blocks(p.Parser().Parse(text).Content)
	return problems
}
