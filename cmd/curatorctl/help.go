// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// help writes what there is, or about one verb.
func (p program) help(words []string) error {
	if len(words) > 0 {
		v, rest := p.findVerb(words)
		switch {
		case v != nil && len(rest) == 0:
			return p.helpVerb(v)
		case len(words) > 1 || len(p.nextWords(words[0])) == 0:
			return p.unknown(words)
		}
	}
	of := strings.Join(words, " ")
	var b strings.Builder
	b.WriteString("curatorctl shows and changes what lives in a ZooKeeper ensemble.\n\n")
	columns := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, v := range p.verbs {
		if strings.HasPrefix(v.name+" ", strings.TrimLeft(of+" ", " ")) {
			_, _ = fmt.Fprintf(columns, "  %s\t%s\n", strings.TrimSpace(v.name+" "+v.args), v.about) // Flush has its error
		}
	}
	err := columns.Flush()
	b.WriteString("\ncuratorctl help VERB lists the flags of a verb. -servers or CURATOR_SERVERS names the servers.\n")
	_, failed := io.WriteString(p.stdout, b.String())
	return cmp.Or(err, failed)
}

func (p program) helpVerb(v *verb) error {
	c := &call{program: p, settings: fromEnvironment(p.getenv)}
	own, common := flag.NewFlagSet("", flag.ContinueOnError), flag.NewFlagSet("", flag.ContinueOnError)
	c.register(common)
	fs, _ := c.flagSet(v)
	fs.VisitAll(func(f *flag.Flag) {
		if common.Lookup(f.Name) == nil {
			own.Var(f.Value, f.Name, f.Usage)
		}
	})
	var b strings.Builder
	fmt.Fprintf(&b, "curatorctl %s: %s\n", strings.TrimSpace(v.name+" "+v.args), v.about)
	for _, flags := range []*flag.FlagSet{own, common} {
		title := "\nFlags:\n"
		if flags == common {
			title = "\nFlags of all verbs; credentials are in CURATOR_AUTH and CURATOR_SASL:\n"
		}
		var defaults strings.Builder
		flags.SetOutput(&defaults)
		flags.PrintDefaults()
		if defaults.Len() > 0 {
			b.WriteString(title + defaults.String())
		}
	}
	_, err := io.WriteString(p.stdout, b.String())
	return err
}

// unknown is the error of words that are no verb.
func (p program) unknown(words []string) error {
	if len(p.nextWords(words[0])) > 0 { // of two words
		if len(words) == 1 {
			return usage("%s: second word missing, expected %s; see curatorctl help %s", words[0], strings.Join(p.nextWords(words[0]), ", "), words[0])
		}
	} else {
		words = words[:1]
	}
	typed := strings.Join(words, " ")
	return usage("unknown verb %q; %s", typed, p.suggestion(typed))
}

// nextWords returns the words of verbs that may follow some.
func (p program) nextWords(before string) []string {
	var words []string
	for _, v := range p.verbs {
		name, found := strings.CutPrefix(v.name, strings.TrimLeft(before+" ", " "))
		word, _, _ := strings.Cut(name, " ")
		if found && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if before == "" {
		words = append(words, "help")
	}
	return words
}

// suggestion returns what a mistyped verb may have been meant to be.
func (p program) suggestion(typed string) string {
	for slips := range 3 { // more make another word
		for _, v := range p.verbs {
			if isNear(typed, v.name, slips) {
				return fmt.Sprintf("did you mean %q?", v.name)
			}
		}
	}
	return "see curatorctl help"
}

// isNear reports whether one word becomes the other when so many letters, at most, are changed, added, left out or exchanged with
// their neighbors.
func isNear(a, b string, slips int) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	if slips == 0 || a == "" || b == "" {
		return len(a)+len(b) <= slips
	}
	isExchanged := len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0]
	return isNear(a[1:], b, slips-1) || isNear(a, b[1:], slips-1) || isNear(a[1:], b[1:], slips-1) ||
		isExchanged && isNear(a[2:], b[2:], slips-1)
}
