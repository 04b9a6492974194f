// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// known has the packages that a program may import.
type known map[string]*types.Package

func (k known) Import(path string) (*types.Package, error) {
	if p := k[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no package %s", path)
}

// compiles returns the error of a function that has a client and a context.
func (k known) compiles(body string) error {
	program := fmt.Sprintf(`package p
import ("context"; "github.com/gocurator/curator/framework")
func _(ctx context.Context, f *framework.Framework) { %s }`, body)
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", program, 0)
	if err != nil {
		return err
	}
	config := types.Config{Importer: k}
	_, err = config.Check("p", fset, []*ast.File{file}, nil)
	return err
}

// TestOptionsThatMakeNoSenseDoNotCompile gives each option to each of the four verbs.
func TestOptionsThatMakeNoSenseDoNotCompile(t *testing.T) {
	t.Chdir(root)
	packs := must.Get(load(t.Context(), []string{"./framework"}))(t)
	imports := known{packs[0].name: packs[0].types}
	for _, p := range packs[0].types.Imports() {
		imports[p.Path()] = p
	}
	verbs := map[string]string{
		"create": `f.Create(ctx, "/a", nil, %s)`, "get": `f.Get(ctx, "/a", %s)`,
		"set": `f.Set(ctx, "/a", nil, %s)`, "delete": `f.Delete(ctx, "/a", %s)`,
	}
	compiled := 0
	for option, sensible := range map[string]string{
		"WithRetry(nil)":                       "create get set delete",
		"InSession(nil)":                       "create get set delete",
		"StoringStatIn(nil)":                   "create get set",
		"WithVersion(1)":                       "set delete",
		"Idempotent()":                         "create set delete",
		"Compressed()":                         "create set",
		"Uncompressed()":                       "create set",
		"CreatingParentsIfNeeded()":            "create get", // get refuses it when it runs
		"CreatingParentContainersIfNeeded()":   "create get",
		"WithMode(framework.Ephemeral)":        "create",
		"WithTTL(1)":                           "create",
		"WithACL()":                            "create",
		"ApplyingACLToParents()":               "create",
		"WithProtection()":                     "create",
		"OrSetData(1)":                         "create",
		"ListingSiblingsIn(nil)":               "create",
		"Decompressed()":                       "get",
		"Undecompressed()":                     "get",
		"StoringAbsenceIn(nil)":                "get",
		"Watched(nil)":                         "get",
		"WithReplyLimit(1)":                    "get", // as above: it is for Children
		"Guaranteed()":                         "delete",
		"InBackground()":                       "delete",
		"DeletingChildrenIfNeeded()":           "delete",
		"Quietly()":                            "delete",
		"WithSessionTimeout(1)":                "",
		"WithCompression()":                    "",
		"WithErrorPolicy(0)":                   "",
		"CreateOption(framework.Quietly())":    "",
		"ReadOption(framework.WithVersion(1))": "",
	} {
		for verb, call := range verbs {
			err := imports.compiles(fmt.Sprintf(call, "framework."+option))
			if strings.Contains(sensible, verb) {
				require.NoError(t, err, "%s at %s", option, verb)
				compiled++
				continue
			}
			require.ErrorContains(t, err, "does not implement", "%s at %s", option, verb)
		}
	}
	require.Equal(t, 40, compiled)
}
