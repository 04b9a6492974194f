// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"cmp"
	"strconv"
	"strings"
)

// StandardLockInternalsSorter orders contenders by the sequence number that the server
// appends to the lock name.
//
// The number is a signed 32-bit counter that wraps: after 2147483647 comes -2147483648. It
// is compared as a serial number (RFC 1982), so the queue keeps its order across the wrap
// as long as fewer than 2^31 nodes are created between the oldest and the newest contender.
// While all numbers are positive the order is Curator's, which compares the digits as text.
type StandardLockInternalsSorter struct {
	LockName string // "lock-" for a mutex
}

// Contends reports whether the name ends with the lock name and a sequence number.
func (s StandardLockInternalsSorter) Contends(name string) bool {
	_, ok := s.Sequence(name)
	return ok
}

// Compare compares by sequence number, and equal numbers by name.
func (s StandardLockInternalsSorter) Compare(a, b string) int {
	// Numbers that are not negative have ten digits and the order of their text. To parse
	// them would be the greater part of sorting a long queue.
	if x, y := s.digits(a), s.digits(b); x != "" && y != "" {
		return cmp.Or(strings.Compare(x, y), strings.Compare(a, b))
	}
	x, _ := s.Sequence(a)
	y, _ := s.Sequence(b)
	return cmp.Or(cmp.Compare(x-y, 0), strings.Compare(a, b)) // the difference wraps as the counter does
}

// digits returns the ten digits after the lock name, or "" if a minus sign is there.
func (s StandardLockInternalsSorter) digits(name string) string {
	const width = 10
	if len(name) < width || name[len(name)-width] == '-' || !strings.HasSuffix(name[:len(name)-width], s.LockName) {
		return ""
	}
	return name[len(name)-width:]
}

// Sequence returns the number that follows the lock name at the end of name. The server
// writes it as ten digits, or as a minus sign and nine or ten digits.
func (s StandardLockInternalsSorter) Sequence(name string) (n int32, ok bool) {
	for _, width := range [...]int{10, 11} {
		if len(name) < width {
			break
		}
		prefix, digits := name[:len(name)-width], name[len(name)-width:]
		if strings.HasSuffix(prefix, s.LockName) && (width == 10 || digits[0] == '-' && digits[1] != '0') && digits[0] != '+' {
			v, err := strconv.ParseInt(digits, 10, 32)
			return int32(v), err == nil
		}
	}
	return 0, false
}

// trailingNumber returns the number that the server has appended to a name.
func trailingNumber(name string) (int32, bool) {
	if len(name) < 10 {
		return 0, false
	}
	return StandardLockInternalsSorter{name[:len(name)-10]}.Sequence(name)
}
