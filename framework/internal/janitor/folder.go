// SPDX-License-Identifier: Apache-2.0

package janitor

import (
	"context"
	"slices"
	"time"
)

const (
	// firstWindow and maxWindow bound what is under way in a folder: creations without an answer,
	// and cleanups. Callers that give up leave no more than that to the server.
	firstWindow = 2
	maxWindow   = 32

	// maxIdle is how many folders in which nothing is under way keep their windows.
	maxIdle = 64

	// lookAgain is after how long a creation that waits for room looks whether it lacks the connection.
	lookAgain = time.Second
)

// folder is what is under way in one folder. The window of creations grows while they are answered
// in time, and shrinks when their callers give up, which shows that the server is slower than they wait.
type folder struct {
	underWay int // creations that were admitted, and cleanups that have not failed
	window   int
	waiting  []chan struct{} // the creations that wait for room; each is closed when it is admitted
}

func (j *Janitor) folderLocked(name string) *folder {
	f := j.folders[name]
	if f == nil {
		f = &folder{window: firstWindow}
		j.folders[name] = f
	}
	return f
}

// Admit waits until there is room for another creation in a folder, and takes it. The caller must
// call Leave when the creation has an answer, or when its cleanup was added. Admit returns false
// if the context or the client has ended or there is no connection. Creations are admitted in their order.
func (j *Janitor) Admit(ctx context.Context, name string) bool {
	j.mu.Lock()
	f := j.folderLocked(name)
	if f.underWay < f.window && len(f.waiting) == 0 {
		f.underWay++
		j.mu.Unlock()
		return true // the usual case costs one look
	}
	admitted := make(chan struct{})
	f.waiting = append(f.waiting, admitted)
	j.mu.Unlock()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		select {
		case <-admitted:
			return true
		case <-look.C:
			select {
			case <-j.cfg.Connected():
				continue
			default:
			}
		case <-ctx.Done():
		case <-j.cfg.Context.Done():
		}
		return !j.withdraw(name, admitted)
	}
}

// withdraw takes a creation out of those that wait. It returns false if it was admitted meanwhile.
func (j *Janitor) withdraw(name string, admitted chan struct{}) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	f := j.folders[name]
	if f == nil {
		return false
	}
	at := slices.Index(f.waiting, admitted)
	if at >= 0 {
		f.waiting = slices.Delete(f.waiting, at, at+1)
	}
	return at >= 0
}

// Outcome is what has become of a creation that was admitted.
type Outcome int

// The outcomes of creations.
const (
	Answered  Outcome = iota // while its caller waited
	Abandoned                // after it was sent
	Failed                   // otherwise
)

// Leave makes room for another creation in the folder.
func (j *Janitor) Leave(name string, o Outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f := j.folders[name]
	switch {
	case o == Answered && f.underWay >= f.window:
		f.window = min(f.window+1, maxWindow)
	case o == Abandoned:
		f.window = max(f.window/2, 1)
	}
	j.leaveLocked(name)
}

// leaveLocked notes that one creation or cleanup less is under way.
func (j *Janitor) leaveLocked(name string) {
	f := j.folders[name]
	f.underWay--
	for len(f.waiting) > 0 && f.underWay < f.window {
		f.underWay++
		close(f.waiting[0])
		f.waiting = slices.Delete(f.waiting, 0, 1)
	}
	if f.underWay == 0 && (f.window == firstWindow || len(j.folders) > maxIdle) {
		delete(j.folders, name)
	}
}
