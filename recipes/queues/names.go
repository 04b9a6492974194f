// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
)

const (
	// itemPrefix begins the name of every item, as in Curator.
	itemPrefix = "queue-"

	// simplePrefix begins the name of every item of a [SimpleDistributedQueue], as in ZooKeeper's own recipe.
	simplePrefix = "qn-"

	// separator encloses the time of a delayed item, and the id of an item with an id.
	separator = "|"

	// numberSize is how many digits the server appends.
	numberSize = 10
)

// split divides the name of an item into what its producer has named it and
// the number that the server has added. A name without a number has 0.
func split(name string) (prefix string, number int32) {
	// A number below -999,999,999 has one character more. A sign belongs to the prefix if that is none without it.
	if at := len(name) - numberSize - 1; at > 0 && (strings.HasPrefix(name[:at], itemPrefix) || name[:at] == simplePrefix) {
		if n, ok := framework.SequenceNumber(name, name[:at]); ok {
			return name[:at], n
		}
	}
	if at := len(name) - numberSize; at > 0 {
		if n, ok := framework.SequenceNumber(name, name[:at]); ok {
			return name[:at], n
		}
	}
	return name, 0
}

// order is how a kind of queue reads names.
type order struct {
	compare func(a, b string) int
	due     func(name string) time.Time // nil if every item is due at once
	renews  bool                        // a newer item may come before older ones
}

var (
	fifo       = order{compare: compareNames}
	byPriority = order{compare: compareNames, renews: true}
	byTime     = order{compare: compareTimes, due: dueTime, renews: true}
	byNumber   = order{compare: compareNumbers}
)

// compareNames orders by the producer's part of the name, then by number.
func compareNames(a, b string) int {
	prefixA, numberA := split(a)
	prefixB, numberB := split(b)
	return cmp.Or(strings.Compare(prefixA, prefixB), framework.CompareSequence(numberA, numberB))
}

func compareNumbers(a, b string) int {
	_, numberA := split(a)
	_, numberB := split(b)
	return cmp.Or(framework.CompareSequence(numberA, numberB), strings.Compare(a, b))
}

func compareTimes(a, b string) int {
	return cmp.Or(dueTime(a).Compare(dueTime(b)), compareNumbers(a, b))
}

// prioritized returns the name of an item, without its number. It has the priority
// as eight hexadecimal digits of its two's complement, after a digit that makes
// negative priorities come first.
func prioritized(priority int32) string {
	sign := 1
	if priority < 0 {
		sign = 0
	}
	return fmt.Sprintf("%s%d%08X", itemPrefix, sign, uint32(priority)) //nolint:gosec // two's complement is meant
}

// delayed returns the name of an item, without its number, that is due so many
// milliseconds after 1970 began.
func delayed(milliseconds int64) string {
	return fmt.Sprintf("%s%s%08X%s", itemPrefix, separator, milliseconds, separator)
}

// dueTime returns when an item is due. One without a readable time is due at
// once, as in Curator.
func dueTime(name string) time.Time {
	milliseconds, err := strconv.ParseInt(between(name), 16, 64)
	if err != nil {
		return time.UnixMilli(0)
	}
	return time.UnixMilli(milliseconds)
}

// identified returns the name of an item, without its number, that has this id.
func identified(id string) string { return itemPrefix + separator + cleanID(id) + separator }

var unsafeInID = strings.NewReplacer("/", "_", separator, "_")

// cleanID returns the id as a name can have it.
func cleanID(id string) string { return unsafeInID.Replace(id) }

// between returns what is between the first two separators, "" if there are not two.
func between(name string) string {
	_, rest, _ := strings.Cut(name, separator)
	inside, _, found := strings.Cut(rest, separator)
	if !found {
		return ""
	}
	return inside
}
