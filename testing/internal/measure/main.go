package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// shipped are the packages that programs and their tests import.
var shipped = []string{
	"./framework/...", "./recipes/...", "./retry", "./listen",
	"./testing/zktest", "./testing/locktest", "./testing/zkserver", "./testing/zkproxy", "./testing/ensemble", "./testing/checker",
}

func main() {
	where := flag.Bool("words", false, "print which phrase of the list stands where, instead of the table; takes documents (.md) too")
	optional := flag.Bool("options", false, "print the options of the packages, as in OPTIONS.md, instead of the table")
	flag.Parse()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = shipped
	}
	output := printTable
	switch {
	case *optional:
		output = printOptions
	case *where:
		output = printWords
	}
	if err := run(context.Background(), os.Stdout, patterns, output); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// run prints something of each package that matches a pattern. A pattern that is the name
// of a document in Markdown stands for its prose, which has nothing but words.
func run(ctx context.Context, w io.Writer, patterns []string, output func(io.Writer, []pack) error) error {
	var packages []string
	for _, pattern := range patterns {
		if !strings.HasSuffix(pattern, ".md") {
			packages = append(packages, pattern)
			continue
		}
		content, err := os.ReadFile(pattern)
		if err != nil {
			return err
		}
		printPlaces(w, document(pattern, string(content)))
	}
	if len(packages) == 0 {
		return nil
	}
	packs, err := load(ctx, packages)
	if err != nil {
		return err
	}
	return output(w, packs)
}

// printWords prints where the listed phrases stand in packages.
func printWords(w io.Writer, packs []pack) error {
	for _, p := range packs {
		printPlaces(w, append(p.comments(), p.messages()...))
	}
	return nil
}

// printTable prints a line per package.
func printTable(w io.Writer, packs []pack) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "package\tfiles\tcycle\tmedian\tp90\tlongest\tcomments/100\twords/1000\t")
	for _, p := range packs {
		b := p.bodies()
		total, found := words(p.comments())
		sum := 0
		for _, n := range found {
			sum += n
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.2f\t\n", strings.TrimPrefix(p.name, "github.com/gocurator/curator/"),
			len(p.files), p.largestCycle(), b.median, b.ninety, b.longest, float64(b.commented)/10, per1000(sum, total))
	}
	return table.Flush()
}

// printPlaces prints each listed phrase with its place and what to write instead.
func printPlaces(w io.Writer, texts []text) {
	for _, t := range texts {
		prose := strings.Join(strings.Fields(t.prose), " ")
		for i, pattern := range compiled {
			for _, hit := range pattern.FindAllString(prose, -1) {
				_, _ = fmt.Fprintf(w, "%s: %q: %s\n", t.at, hit, phrases[i].instead)
			}
		}
	}
}

func per1000(n, total int) float64 { return 1000 * float64(n) / float64(max(total, 1)) }
