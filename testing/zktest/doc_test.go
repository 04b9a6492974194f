// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// TestDocumentationIsTested compares the code of the package's documentation about
// applications with application_test.go.
func TestDocumentationIsTested(t *testing.T) {
	doc := must.Get(os.ReadFile("doc.go"))(t)
	_, section, found := strings.Cut(string(doc), "// # Testing an application\n")
	require.True(t, found)
	section, _, found = strings.Cut(section, "// # ")
	require.True(t, found)
	tests := must.Get(os.ReadFile("application_test.go"))(t)

	var functions []string
	for line := range strings.Lines(section) {
		code, isCode := strings.CutPrefix(line, "//\t")
		switch {
		case isCode && strings.HasPrefix(code, "func "):
			functions = append(functions, code)
		case isCode:
			functions[len(functions)-1] += code
		case line == "//\n" && len(functions) > 0 && !strings.HasSuffix(functions[len(functions)-1], "\n}\n"):
			functions[len(functions)-1] += "\n" // an empty line in the code
		}
	}
	require.Len(t, functions, 3)
	for _, f := range functions {
		require.Contains(t, string(tests), f)
	}
}
