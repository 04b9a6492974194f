// SPDX-License-Identifier: Apache-2.0

package line

import (
	"runtime"
	"sync"
	"weak"
)

// shared has the lines that are in use.
var shared = struct {
	sync.Mutex
	byKey map[any]weak.Pointer[Line]
}{byKey: make(map[any]weak.Pointer[Line])}

// Of returns the line with this key. It lives as long as something refers to it.
func Of(key any, sorter Sorter) *Line {
	shared.Lock()
	defer shared.Unlock()
	if l := shared.byKey[key].Value(); l != nil {
		return l
	}
	l := New(sorter)
	shared.byKey[key] = weak.Make(l)
	runtime.AddCleanup(l, forgetShared, key)
	return l
}

func forgetShared(key any) {
	shared.Lock()
	defer shared.Unlock()
	if shared.byKey[key].Value() == nil { // another line may have taken its place
		delete(shared.byKey, key)
	}
}
