// SPDX-License-Identifier: Apache-2.0

// Package identity says in the data of a znode which process has created it.
package identity

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

// CheckLabel returns an error if a label cannot be part of an identity.
func CheckLabel(label string) error {
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

// Of returns the identity of this process: host/pid, or host/pid and the label.
func Of(label string) []byte {
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

// Parse reads what Of returns, and an address, which is the identity in Curator's nodes. It finds
// nothing in other data.
func Parse(data string) (host string, pid int, label string) {
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
