// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/recipes/locks"
)

// json writes a value on one line.
func (c *call) json(value any) error { return json.NewEncoder(c.stdout).Encode(value) }

// The longest cells of tables, in characters. Every row is as wide as the widest, and what is in ZooKeeper may be long.
const (
	longCell = 120
	wideCell = 1000
)

// table writes rows in columns. The first row is the head.
func (c *call) table(rows [][]string) error {
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	most := longCell
	if c.output == "wide" {
		most = wideCell
	}
	for _, row := range rows {
		for i := range row {
			row[i] = cut(row[i], most)
		}
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// show writes a value as JSON for scripts, and as a table for people.
func (c *call) show(value any, rows [][]string) error {
	if c.output == "json" {
		return c.json(value)
	}
	return c.table(rows)
}

// say writes a value as JSON for scripts, and as lines for people.
func (c *call) say(value any, lines ...string) error {
	if c.output == "json" {
		return c.json(value)
	}
	for _, line := range lines {
		if err := c.println(line); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) println(text string) error {
	_, err := io.WriteString(c.stdout, text+"\n")
	return err
}

// cut shortens a text to so many characters, the last of which says so.
func cut(text string, most int) string {
	if len(text) <= most || utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text[:min(len(text), most*utf8.UTFMax)])[:most-1]) + "\u2026"
}

var printable = inspect.Printable

// allPrintable is printable for each text.
func allPrintable(texts []string) []string {
	shown := make([]string, len(texts))
	for i, text := range texts {
		shown[i] = printable(text)
	}
	return shown
}

// age is how long ago something was, by the server's clock.
func age(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return short(time.Since(since))
}

func short(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// longName is the most that is shown of what a participant says that it is, in characters.
const longName = 60

// nameOf is what people call a participant.
func nameOf(p locks.Participant) string { return cut(inspect.Name(p), longName) }

// moment writes a tick. All are in UTC.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// orDash is printable, and a dash for nothing.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return printable(text)
}
