package main

import (
	"fmt"
	"sync"
)

// archive is what the lock protects. It cannot see who holds the lock, but it can
// compare fencing tokens: those of later holders are greater. A writer that lost
// the lock and does not know it, because its process was paused or its session was
// closed behind its back, is refused as soon as its successor has been here.
//
// A database does the same with "UPDATE ... WHERE token <= ?".
type archive struct {
	mu      sync.Mutex
	newest  int64 // the greatest token seen
	reports []string
}

// file adds a report. It returns an error, and adds nothing, when a holder with a
// greater token has filed one.
func (a *archive) file(token int64, report string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token < a.newest {
		return fmt.Errorf("archive: %s refused: its token is %d, and %d has been here", report, token, a.newest)
	}
	a.newest = token
	a.reports = append(a.reports, report)
	return nil
}
