// SPDX-License-Identifier: Apache-2.0

package atomic

import (
	"time"
)

// written is what a change has left in the znode. The next change may begin with it instead of a
// read: its write, too, succeeds only if the znode has still this version.
type written struct {
	data    []byte
	version int32
	history int64 // of the write
	inARow  int   // changes made since the last read
	at      time.Time
	took    time.Duration
}

// maxInARow is how many changes of one client follow each other without a read. While they do,
// a version lasts for one round trip, and the changes of other clients, which read it first,
// mostly come too late.
const maxInARow = 8

// mayBeFollowed reports whether a change in this history may begin with what was written. It may
// for as long as the write took. A znode that is deleted and created again can come to a version
// that it had before, with other data. The limit leaves no more time for that than there is
// between the read and the write of a change.
func (w *written) mayBeFollowed(history int64) bool {
	return w != nil && w.history == history && w.inARow < maxInARow && time.Since(w.at) <= w.took
}
