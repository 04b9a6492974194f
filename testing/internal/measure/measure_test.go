package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// loadModule writes a module of one package and loads it.
func loadModule(t *testing.T, files map[string]string) []pack {
	t.Helper()
	t.Setenv("GOWORK", "off") // a workspace around the temporary directory must not matter
	root := t.TempDir()
	files["go.mod"] = "module sample\n\ngo 1.26\n"
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o600))
	}
	t.Chdir(root)
	packs, err := load(t.Context(), []string{"./..."})
	require.NoError(t, err)
	require.Len(t, packs, 1)
	return packs
}

func TestTheLargestCycleIsCounted(t *testing.T) {
	packs := loadModule(t, map[string]string{
		"a.go": "package sample\n\ntype A struct{ b *B }\n",
		"b.go": "package sample\n\ntype B struct{}\n\nfunc (*B) Method() { c() }\n",
		"c.go": "package sample\n\nfunc c() { var a A; a.b.Method() }\n",
		"d.go": "package sample\n\nvar d A\n",
		"e.go": "package sample\n\nfunc e() { f() }\n",
		"f.go": "package sample\n\nfunc f() { e() }\n",
	})

	require.Equal(t, 3, packs[0].largestCycle(), "a, b and c refer to each other, d to them, e and f to each other")
}

func TestFilesWithoutACycle(t *testing.T) {
	packs := loadModule(t, map[string]string{
		"a.go": "package sample\n\nfunc a() { a() }\n",
		"b.go": "package sample\n\nfunc b() { a() }\n",
	})

	require.Zero(t, packs[0].largestCycle())
}

func TestBodiesAreMeasured(t *testing.T) {
	packs := loadModule(t, map[string]string{
		"a.go": "package sample\n\n// short is documented outside.\nfunc short() {}\n\n" +
			"func long() {\n\t// A comment of\n\t// two lines.\n\tshort()\n\tlong() // and one beside\n}\n",
	})

	require.Equal(t, bodies{median: 6, ninety: 6, longest: 6, commented: 750}, packs[0].bodies(), "three of four lines")
}

func TestPhrasesAreFoundInCommentsAndTexts(t *testing.T) {
	packs := loadModule(t, map[string]string{
		"a.go": "package sample\n\n// a is for\n// ever, and nobody's. Knobodys do not count.\nconst a = \"told anew to others\"\n\nconst name = \"anew\"\n",
	})

	total, found := words(packs[0].comments())
	require.Equal(t, 10, total)
	sum := 0
	for _, n := range found {
		sum += n
	}
	require.Equal(t, 2, sum, "for ever and nobody")
	var out bytes.Buffer
	printPlaces(&out, append(packs[0].comments(), packs[0].messages()...))
	require.Contains(t, out.String(), `a.go:5:11: "anew": again`)
	require.NotContains(t, out.String(), "a.go:7")
}
