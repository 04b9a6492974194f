package main

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testnames"
)

func TestTableFitsTheTree(t *testing.T) {
	require.NoError(t, validate(table))
	root, err := moduleRoot(t.Context())
	require.NoError(t, err)
	for _, m := range table {
		if _, _, err := m.apply(root); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestTableNamesTests: go test is content with a pattern that matches no test.
func TestTableNamesTests(t *testing.T) {
	root, err := moduleRoot(t.Context())
	require.NoError(t, err)
	tests := make(map[string][]string) // by package
	for _, m := range table {
		if tests[m.pkg] == nil {
			found, err := testnames.In(filepath.Join(root, m.pkg))
			require.NoError(t, err)
			tests[m.pkg] = slices.Collect(maps.Keys(found))
		}
		top, _, _ := strings.Cut(m.test, "/")
		named := slices.ContainsFunc(tests[m.pkg], regexp.MustCompile(top).MatchString)
		require.True(t, named, "%s: no test of %s matches %s", m.name, m.pkg, m.test)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*mutant)
		want  string
	}{
		"no name":          {func(m *mutant) { m.name = "" }, "name is empty"},
		"no property":      {func(m *mutant) { m.property = " " }, "property is empty"},
		"no text":          {func(m *mutant) { m.old = "" }, "old is empty"},
		"no change":        {func(m *mutant) { m.new = m.old }, "old and new are the same text"},
		"no test":          {func(m *mutant) { m.test = "" }, "test is empty"},
		"bad test":         {func(m *mutant) { m.test = "Test(" }, "test is not a regular expression"},
		"nowhere":          {func(m *mutant) { m.in = "" }, "in is empty"},
		"folder elsewhere": {func(m *mutant) { m.dir = "../house" }, `dir is "../house", want a folder`},
		"no folder":        {func(m *mutant) { m.dir = "" }, `dir is "", want a folder`},
		"many packages":    {func(m *mutant) { m.pkg = "./..." }, `pkg is "./...", want one package`},
		"foreign":          {func(m *mutant) { m.pkg = "net/http" }, `pkg is "net/http", want one package`},
	} {
		t.Run(name, func(t *testing.T) {
			m := doorMutant("good", condition, anyKey, "^TestStrict$")
			require.NoError(t, validate([]mutant{m}))
			c.spoil(&m)
			require.ErrorContains(t, validate([]mutant{m}), c.want)
		})
	}
}

func TestValidateWantsDistinctNames(t *testing.T) {
	m := doorMutant("twin", condition, anyKey, "^TestStrict$")

	require.ErrorContains(t, validate([]mutant{m, m}), `row 1: the name "twin" is taken`)
}
