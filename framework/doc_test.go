// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// forFmt are the methods that package fmt calls.
var forFmt = map[string]bool{"String": true, "Format": true}

// TestDocNamesEveryOption: the package documentation says of each option, and of
// each method of a client, what it is for or what it is called in Curator.
func TestDocNamesEveryOption(t *testing.T) {
	text := must.Get(os.ReadFile("doc.go"))(t)
	var missing []string
	for _, file := range parse(t, "*.go") {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || receiverOf(f) != "Framework" && !returnsOption(f) || forFmt[f.Name.Name] {
				continue
			}
			if !regexp.MustCompile(`\b` + f.Name.Name + `\b`).Match(text) {
				missing = append(missing, f.Name.Name)
			}
		}
	}
	require.Empty(t, missing)
}

// returnsOption tells whether a function makes an option of a client or a verb.
func returnsOption(f *ast.FuncDecl) bool {
	if f.Recv != nil || f.Type.Results.NumFields() != 1 {
		return false
	}
	of, ok := f.Type.Results.List[0].Type.(*ast.Ident)
	return ok && strings.HasSuffix(of.Name, "Option")
}
