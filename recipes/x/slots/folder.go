// SPDX-License-Identifier: Apache-2.0

package slots

import (
	"strconv"
	"strings"
	"time"

	"github.com/gocurator/curator/recipes/locks"
)

const (
	slotName   = "slot-"
	markerName = "taken-"
	none       = -1
)

// names is what the names in the folder tell.
type names struct {
	taken  map[int]bool // the numbers that are held
	held   int          // how many of them are below the size
	marked map[int]bool // the numbers with a marker
	wait   bool         // a process waits for its turn

	left time.Duration // of the shortest delay of a number that is not held; 0 for none
}

// read reads the names of the children of the folder.
func read(children []string, size int) *names {
	n := &names{taken: make(map[int]bool), marked: make(map[int]bool)}
	for _, child := range children {
		if number, ok := numberIn(child, slotName); ok {
			if !n.taken[number] && number < size {
				n.held++
			}
			n.taken[number] = true
		} else if number, ok := numberIn(child, markerName); ok {
			n.marked[number] = true
		}
		n.wait = n.wait || locks.StandardLockInternalsSorter{LockName: "lock-"}.Contends(child)
	}
	return n
}

// numberIn returns the number behind the last place of a text in a name.
func numberIn(name, text string) (number int, ok bool) {
	at := strings.LastIndex(name, text)
	if at < 0 {
		return 0, false
	}
	digits, _, _ := strings.Cut(name[at+len(text):], "-")
	number, err := strconv.Atoi(digits)
	return number, err == nil
}
