package framework

import (
	"strconv"
	"strings"
)

// sequenceDigits is the number of characters that the server appends to a sequential
// znode's name: ten, including a minus sign, or eleven if the number does not fit.
const sequenceDigits = 10

// SequenceNumber returns the number that the server has given to a sequential znode. ok
// reports whether the name has one. The name may be a path. prefix is the last name of the
// path given to Create, without the prefix of [WithProtection]. It is needed because
// "job-1000000000" may be a number after "job-", or a negative one after "job".
//
// The number is a signed 32-bit counter for each parent. Before ZooKeeper 3.6 it wraps from
// 2147483647 to -2147483648, so compare numbers with [CompareSequence]. Since 3.6 it stays
// at 2147483647, which no longer orders znodes. Curator's ZKPaths.extractSequentialSuffix
// takes the last ten characters, whatever they are.
func SequenceNumber(name, prefix string) (number int32, ok bool) {
	_, name = SplitPath("/" + name)
	if IsProtectedName(name) && !strings.HasPrefix(prefix, protectedPrefix) {
		name = name[protectedPrefixLen:]
	}
	digits, ok := strings.CutPrefix(name, prefix)
	// ParseInt accepts a plus sign, which no server writes.
	if !ok || len(digits) < sequenceDigits || digits[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	// More digits than the number needs belong to the name in front of it.
	if err != nil || len(digits) != max(sequenceDigits, len(strconv.FormatInt(n, 10))) {
		return 0, false
	}
	return int32(n), true
}

// CompareSequence returns a negative number if the znode with number a was created before
// the znode with number b, a positive number if after, and 0 for equal numbers. The result
// is right across the wrap of the counter if fewer than 2^31 znodes were created between
// the two (RFC 1982).
func CompareSequence(a, b int32) int { return int(a - b) }
