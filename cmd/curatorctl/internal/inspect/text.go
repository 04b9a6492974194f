// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/gocurator/curator/recipes/locks"
)

// Name is what people call a participant: its label with host and process, or what its node says. It escapes what a
// terminal would obey, and cuts what is long.
func Name(p locks.Participant) string {
	switch {
	case p.RevocationRequested():
		return "(asked to give way)"
	case p.Label != "":
		return Printable(fmt.Sprintf("%s (%s/%d)", cut(p.Label, longText), cut(p.Host, longText), p.PID))
	case p.Identity != "":
		return Printable(cut(p.Identity, longText))
	default:
		return Printable(cut(p.Path, longText))
	}
}

// longText is the most that is shown of a text in a znode, in bytes, and longPath of a path.
const (
	longText = 160
	longPath = 1000
)

func cut(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "\uFFFD") + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func shownPath(path string) string { return Printable(cut(path, longPath)) }

// Printable quotes a text that could look like another one, such as one with a right-to-left override.
func Printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(text)
	}
	return text
}

// OneLine makes one line of an error, in which a terminal obeys nothing.
func OneLine(text string) string {
	var line strings.Builder
	for _, r := range strings.ReplaceAll(text, "\n", "; ") {
		if unicode.IsPrint(r) {
			line.WriteRune(r)
		} else {
			line.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return line.String()
}

// quoted returns a path as one word of a shell.
func quoted(path string) string {
	if strings.Trim(path, "/-_.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return path
	}
	if Printable(path) != path { // a terminal must obey nothing
		escaped := strconv.QuoteToASCII(path)
		return "$'" + strings.NewReplacer(`\"`, `"`, `'`, `\'`).Replace(escaped[1:len(escaped)-1]) + "'"
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

func agoOf(p locks.Participant) string {
	return max(time.Since(p.Since), 0).Round(time.Second).String()
}
