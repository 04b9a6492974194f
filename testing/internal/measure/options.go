// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/types"
	"io"
	"maps"
	"slices"
	"strings"
)

// optionType is an interface of options: the calls that take them, and the functions
// that make them.
type optionType struct {
	name          string
	takers, makes []string
}

// options returns the option types of a package, by name.
func (p pack) options() []optionType {
	scope := p.types.Scope()
	found := make(map[string]*optionType)
	add := func(fn *types.Func, as string) {
		signature, _ := fn.Type().(*types.Signature)
		if option := optionOf(signature, p.types); option != "" {
			if found[option] == nil {
				found[option] = &optionType{name: option}
			}
			found[option].takers = append(found[option].takers, as)
		}
	}
	for _, name := range scope.Names() {
		switch object := scope.Lookup(name).(type) {
		case *types.Func:
			if object.Exported() {
				add(object, name)
			}
		case *types.TypeName:
			for method := range exportedMethods(object) {
				add(method, name+"."+method.Name())
			}
		}
	}
	for _, name := range scope.Names() {
		maker, ok := scope.Lookup(name).(*types.Func)
		if !ok || !maker.Exported() {
			continue
		}
		for option := range found {
			if p.makesOption(maker, option) {
				found[option].makes = append(found[option].makes, name)
			}
		}
	}
	return sorted(found)
}

func sorted(found map[string]*optionType) []optionType {
	var list []optionType
	for _, name := range slices.Sorted(maps.Keys(found)) {
		slices.Sort(found[name].takers)
		list = append(list, *found[name])
	}
	return list
}

// exportedMethods yields the exported methods of an exported type.
func exportedMethods(object *types.TypeName) func(func(*types.Func) bool) {
	return func(yield func(*types.Func) bool) {
		named, ok := object.Type().(*types.Named)
		if !ok || !object.Exported() {
			return
		}
		for method := range named.Methods() {
			if method.Exported() && !yield(method) {
				return
			}
		}
	}
}

// optionOf returns the name of the interface of home that a variadic call takes, or "".
func optionOf(signature *types.Signature, home *types.Package) string {
	if !signature.Variadic() {
		return ""
	}
	last := signature.Params().At(signature.Params().Len() - 1).Type()
	slice, _ := last.(*types.Slice)
	named, ok := slice.Elem().(*types.Named)
	if !ok || named.Obj().Pkg() != home || !strings.HasSuffix(named.Obj().Name(), "Option") {
		return ""
	}
	return named.Obj().Name()
}

// makesOption reports whether a function returns one value that is the option.
func (p pack) makesOption(maker *types.Func, option string) bool {
	signature, _ := maker.Type().(*types.Signature)
	if signature.Results().Len() != 1 || signature.TypeParams().Len() > 0 {
		return false
	}
	result := signature.Results().At(0).Type()
	if named, ok := result.(*types.Named); ok {
		if !strings.HasSuffix(named.Obj().Name(), "Option") {
			return false
		}
	} else if _, ok := result.(*types.Interface); !ok { // which embeds the options that it is
		return false
	}
	wanted, _ := p.types.Scope().Lookup(option).(*types.TypeName)
	if contract, ok := wanted.Type().Underlying().(*types.Interface); ok {
		return types.Implements(result, contract)
	}
	return types.Identical(result, wanted.Type())
}

// printOptions prints a table of the options of each package, in Markdown.
func printOptions(w io.Writer, packs []pack) error {
	for _, p := range packs {
		list := p.options()
		if len(list) == 0 {
			continue
		}
		_, _ = fmt.Fprintf(w, "\n## %s\n\n| type | taken by | options |\n|---|---|---|\n",
			strings.TrimPrefix(p.name, "github.com/gocurator/curator/"))
		for _, o := range list {
			_, _ = fmt.Fprintf(w, "| `%s` | %s | %s |\n", o.name, quoted(o.takers), quoted(o.makes))
		}
	}
	return nil
}

// quoted lists names in backquotes.
func quoted(names []string) string {
	if len(names) == 0 {
		return "none yet"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
