// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pack is a package of this project, parsed and type-checked without its tests.
type pack struct {
	name  string // the import path
	fset  *token.FileSet
	files []*ast.File
	types *types.Package
	uses  map[*ast.Ident]types.Object // what each name in the files stands for
}

// listed is what go list says about a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles, Imports        []string
	DepOnly                 bool
}

// isOwn reports whether a package is of this project, in whichever module.
func isOwn(path string) bool {
	return path == modulePath || strings.HasPrefix(path, modulePath+"/")
}

const modulePath = "github.com/gocurator/curator"

// loader reads packages. It checks the project's own from their source, since that takes less time than compiling them.
// All others are compiled, which is done once for each version.
type loader struct {
	fset    *token.FileSet
	own     map[string]*pack
	exports map[string]string // the files of the others
	others  types.Importer
}

func newLoader() *loader {
	l := &loader{fset: token.NewFileSet(), own: make(map[string]*pack), exports: make(map[string]string)}
	// One for all packages, since it reads each import once.
	l.others = importer.ForCompiler(l.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(l.exports[path]) })
	return l
}

// load returns the packages that match the patterns, in the module of the working directory.
func load(ctx context.Context, patterns []string) ([]pack, error) {
	return newLoader().load(ctx, patterns)
}

func (l *loader) load(ctx context.Context, patterns []string) ([]pack, error) {
	all, err := list(ctx, append([]string{"-deps", "-json=ImportPath,Dir,GoFiles,Imports,DepOnly"}, patterns...))
	if err != nil {
		return nil, err
	}
	if err := l.compile(ctx, all); err != nil {
		return nil, err
	}
	var packs []pack
	for _, one := range all { // what a package imports comes before it
		if !isOwn(one.ImportPath) || len(one.GoFiles) == 0 {
			continue
		}
		p, err := l.check(one)
		if err != nil {
			return nil, err
		}
		if !one.DepOnly {
			packs = append(packs, *p)
		}
	}
	return packs, nil
}

// compile finds the files of the other packages that the project's own import.
func (l *loader) compile(ctx context.Context, all []listed) error {
	var missing []string
	for _, one := range all {
		if !isOwn(one.ImportPath) {
			continue
		}
		for _, path := range one.Imports {
			if _, known := l.exports[path]; !known && !isOwn(path) && path != "unsafe" && path != "C" {
				l.exports[path] = ""
				missing = append(missing, path)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	compiled, err := list(ctx, append([]string{"-deps", "-export", "-json=ImportPath,Export"}, missing...))
	for _, one := range compiled {
		l.exports[one.ImportPath] = one.Export
	}
	return err
}

// list runs go list.
func list(ctx context.Context, args []string) ([]listed, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list"}, args...)...) //nolint:gosec // the arguments are package patterns
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []listed
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, l)
	}
}

// check parses and type-checks one package, once.
func (l *loader) check(one listed) (*pack, error) {
	if known := l.own[one.ImportPath]; known != nil {
		return known, nil
	}
	p := &pack{name: one.ImportPath, fset: l.fset, uses: make(map[*ast.Ident]types.Object)}
	for _, name := range one.GoFiles {
		file, err := parser.ParseFile(l.fset, filepath.Join(one.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, file)
	}
	config := types.Config{Importer: l}
	checked, err := config.Check(one.ImportPath, l.fset, p.files, &types.Info{Uses: p.uses})
	if err != nil {
		return nil, err
	}
	p.types = checked
	l.own[one.ImportPath] = p
	return p, nil
}

// Import returns a package that a checked one imports.
func (l *loader) Import(path string) (*types.Package, error) {
	if p := l.own[path]; p != nil {
		return p.types, nil
	}
	return l.others.Import(path)
}
