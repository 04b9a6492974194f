package framework

import (
	"strconv"
	"strings"
)

// sequenceDigits is how many characters the server appends to a sequential znode's
// name: the number in ten characters, minus sign included, or in eleven if that is not
// enough.
const sequenceDigits = 10

// SequenceNumber returns the number that the server has given to a sequential znode,
// and whether it is one. The name may be a path; prefix is the last name as Create was
// given it, without what [WithProtection] puts before it. Without the prefix the
// number could not be told from it: "job-1000000000" is the first number after "job-",
// or the negative one after "job".
//
// The number is a signed counter of 32 bits for each parent. Before ZooKeeper 3.6 it
// wraps: after 2147483647 comes -2147483648, so numbers are to be compared with
// [CompareSequence]. Since 3.6 it stays at 2147483647, and tells nothing any more.
// Curator's ZKPaths.extractSequentialSuffix takes the last ten characters, whatever
// they are.
func SequenceNumber(name, prefix string) (number int32, ok bool) {
	_, name = SplitPath("/" + name)
	if IsProtectedName(name) && !strings.HasPrefix(prefix, protectedPrefix) {
		name = name[protectedPrefixLen:]
	}
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok || len(digits) < sequenceDigits || digits[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || len(digits) != max(sequenceDigits, len(strconv.FormatInt(n, 10))) {
		return 0, false
	}
	return int32(n), true
}

// CompareSequence returns a negative number when the znode with number a was created
// before the one with number b, a positive one when after, and 0 for equal numbers. It
// is right across the wrap of the counter as long as fewer than 2^31 znodes were
// created between the two (RFC 1982).
func CompareSequence(a, b int32) int { return int(a - b) }
