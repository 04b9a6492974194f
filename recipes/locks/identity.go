package locks

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLabel is the greatest length of a label in bytes.
const maxLabel = 256

func checkLabel(label string) error {
	switch {
	case label == "" || len(label) > maxLabel:
		return fmt.Errorf("%d bytes, expected 1 to %d", len(label), maxLabel)
	case !utf8.ValidString(label) || strings.ContainsFunc(label, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("expected printable characters")
	case strings.TrimSpace(label) != label:
		return errors.New("expected no space before or after it")
	default:
		return nil
	}
}

// defaultLockData is host/pid, or host/pid and the label.
func defaultLockData(label string) []byte {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	data := fmt.Appendf(nil, "%s/%d", host, os.Getpid())
	if label != "" {
		data = append(append(data, ' '), label...)
	}
	return data
}

// parseIdentity parses this package's default data, and an address, which is Curator's
// default. It finds nothing in other data.
func parseIdentity(data string) (host string, pid int, label string) {
	process, label, _ := strings.Cut(data, " ")
	host, digits, found := strings.Cut(process, "/")
	if !found && net.ParseIP(data) != nil {
		return data, 0, ""
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if !found || host == "" || err != nil {
		return "", 0, ""
	}
	return host, int(n), label
}
