package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoListedPhraseStandsInAShippedPackage counts each phrase of the list in the
// comments and messages of each shipped package and compares it with its limit. In a
// package of few words, one occurrence of a phrase with a limit above zero is no more
// than the limit allows.
func TestNoListedPhraseStandsInAShippedPackage(t *testing.T) {
	t.Chdir(root)
	packs, err := load(t.Context(), shipped)
	require.NoError(t, err)
	require.NotEmpty(t, packs)
	for _, p := range packs {
		name := strings.TrimPrefix(p.name, "github.com/gocurator/curator/")
		above := aboveLimit(append(p.comments(), p.messages()...))
		if len(above) == 0 {
			continue
		}
		var places bytes.Buffer
		printPlaces(&places, append(p.comments(), p.messages()...))
		t.Errorf("%s has %s too often:\n%s", name, strings.Join(above, ", "), &places)
	}
}

// TestFewListedPhrasesStandInADocument: a document in Markdown has at most one phrase of
// the list for each 1,000 words, and one in any case.
func TestFewListedPhrasesStandInADocument(t *testing.T) {
	documents := 0
	for _, name := range repository(t).files {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		documents++
		prose := document(name, content(t, name))
		total, found := words(prose)
		sum := 0
		for _, n := range found {
			sum += n
		}
		if sum > 1+total/1000 {
			var places bytes.Buffer
			printPlaces(&places, prose)
			t.Errorf("%s has %d listed phrases in %d words:\n%s", name, sum, total, &places)
		}
	}
	require.Greater(t, documents, 3)
}

// TestCodeOfADocumentIsNoProse: a block of code is not searched, and places have lines.
func TestCodeOfADocumentIsNoProse(t *testing.T) {
	var places bytes.Buffer
	printPlaces(&places, document("a.md", "made anew\n```go\n// nobody\n```\nfor ever\n"))
	require.Equal(t, "a.md:1: \"anew\": again\na.md:5: \"for ever\": forever\n", places.String())
}

// TestAPhraseAboveItsLimit: a phrase with limit zero may not stand once, another one
// as often as its limit says for the number of words, and once in any case.
func TestAPhraseAboveItsLimit(t *testing.T) {
	prose := func(s string) []text { return []text{{prose: s}} }
	require.Empty(t, aboveLimit(prose("the holder and the waiter")))
	require.Equal(t, []string{"anew"}, aboveLimit(prose("made anew")))
	require.Empty(t, aboveLimit(prose("meanwhile")))
	require.Equal(t, []string{"meanwhile"}, aboveLimit(prose("meanwhile, meanwhile")))
	require.Empty(t, aboveLimit(prose(strings.Repeat("word ", 20_000)+"meanwhile, meanwhile")))
}

// aboveLimit returns the phrases that stand in texts more often than their limits allow.
func aboveLimit(texts []text) []string {
	total, found := words(texts)
	var above []string
	for i, p := range phrases {
		allowed := p.limit * float64(total) / 1000
		if p.limit > 0 {
			allowed = max(allowed, 1)
		}
		if float64(found[i]) > allowed {
			above = append(above, p.pattern)
		}
	}
	return above
}
