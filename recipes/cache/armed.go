// SPDX-License-Identifier: Apache-2.0

package cache

import "github.com/gocurator/curator/framework"

// armed is the one-shot watches on one path, for servers without persistent ones. The zero
// value has none. It is one pointer, as each node has one.
type armed struct{ watches *watches }

type watches struct{ data, children *framework.Watch }

func (a *armed) data() *framework.Watch {
	if a.watches == nil {
		return nil
	}
	return a.watches.data
}

func (a *armed) children() *framework.Watch {
	if a.watches == nil {
		return nil
	}
	return a.watches.children
}

func (a *armed) any() bool { return a.watches != nil }

// keep takes over a pair of watches. A nil watch leaves the one that is there.
func (a *armed) keep(data, children *framework.Watch) {
	if data == nil && children == nil {
		return
	}
	if a.watches == nil {
		a.watches = new(watches)
	}
	if data != nil {
		a.watches.data = data
	}
	if children != nil {
		a.watches.children = children
	}
}

// forget drops a watch that has ended, and reports which of the two it was, if any.
func (a *armed) forget(w *framework.Watch) (ofData, ofChildren bool) {
	if a.watches == nil {
		return false, false
	}
	ofData, ofChildren = a.watches.data == w, a.watches.children == w
	switch {
	case ofData:
		a.watches.data = nil
	case ofChildren:
		a.watches.children = nil
	}
	if *a.watches == (watches{}) {
		a.watches = nil // any reports false then
	}
	return ofData, ofChildren
}

func (a *armed) cancel() {
	if a.watches != nil {
		a.watches.data.Cancel()
		a.watches.children.Cancel()
		a.watches = nil
	}
}
