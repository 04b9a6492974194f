// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/watching"
)

type watchedOption struct {
	anyCall
	into **Watch
}

// Watched sets a watch together with the read. For Get and Exists it is on the data of the znode, and for
// Children on the list of its children. Exists also watches a path without a znode; Get and Children then
// fail and leave no watch. When the read succeeds the watch is stored in *into, and the caller must Cancel
// it when it is no longer needed. When the read fails, *into is not changed.
func Watched(into **Watch) ReadOption { return watchedOption{into: into} }

func (o watchedOption) set(c *callConfig) error {
	return put(c, watched, &c.watch, o.into, "a place for the *Watch")
}

// watchRequest is a read that asks for a watch.
type watchRequest struct {
	f       *Framework
	setting watching.Setting
	into    **Watch
	flag    *byte  // in the request: asks the server for a watch
	current *Watch // of the last try
}

// begin registers a try of the request and returns the function that receives its outcome.
func (r *watchRequest) begin() func(conduit.Reply, error) {
	r.current.Cancel() // of a try that failed after this read had succeeded
	r.current = &Watch{log: r.f.cfg.Logger}
	ask, done := r.f.watches.Begin(&r.current.one, r.setting)
	// Each try decides again: the watch that served the last one may be gone.
	*r.flag = 0
	if ask {
		*r.flag = 1
	}
	return done
}

// deliver hands the watch over, or cancels it if the read failed.
func (r *watchRequest) deliver(ok bool) {
	if !ok || !r.current.one.IsSet() {
		r.current.Cancel()
		return
	}
	*r.into = r.current
}
