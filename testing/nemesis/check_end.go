package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// leftBehind finds what was still there when all was closed, or when the workers had stopped: by
// what the servers say, and by their log.
func leftBehind(r *roundReport) (found []violation) {
	left := func(p promise, n int, what string) {
		if n > 0 {
			found = append(found, violation{promise: p, count: n, round: r, what: fmt.Sprintf("%d %s", n, what)})
		}
	}
	quiet, after := r.record.Left, r.record.After
	if r.log == nil || !r.diverged() { // otherwise what follows asks their log
		left(noOrphan, quiet.Ephemerals+quiet.LockNodes, "ephemeral nodes or nodes of locks were left when all workers had stopped")
		left(noOrphan, after.Ephemerals+after.LockNodes, "ephemeral nodes or nodes of locks were left when all sessions were closed")
	}
	left(noForgottenWatch, quiet.Watches, "watches were left when all workers had stopped")
	left(noForgottenWatch, after.Watches, "watches were left when all sessions were closed")
	if r.log == nil {
		return found
	}
	for _, n := range r.log.all {
		if n.deleted == 0 {
			found = append(found, violation{
				promise: noOrphan, round: r, what: fmt.Sprintf("%s of session %#x, created by %#x, was never deleted", n.path, n.session, n.czxid),
			})
		}
	}
	return found
}

// diverged reports whether the servers did not have the same nodes in the end.
func (r *roundReport) diverged() bool {
	return len(r.record.Left.Phantoms)+len(r.record.After.Phantoms) > 0
}

// faultsOfServers tells what the servers of a round have lost, or kept for themselves: nothing that a
// client can help.
func faultsOfServers(r *roundReport) (told []string) {
	there := make(map[string]bool)
	for _, values := range r.record.Sets {
		for _, value := range values {
			there[value] = true
		}
	}
	updates := 0
	for _, events := range r.events {
		for _, e := range events {
			if e.Kind == appended && e.Outcome == accepted && !there[e.Value] && r.lostByServers(e.Value) {
				updates++
			}
		}
	}
	if updates > 0 {
		told = append(told, fmt.Sprintf("fault of the servers in round %s: %d updates that a majority has in its logs were not there in the end, "+
			"and nobody has written over them who could have read them", r.record.Folder, updates))
	}
	if phantoms := slices.Concat(r.record.Left.Phantoms, r.record.After.Phantoms); len(phantoms) > 0 {
		told = append(told, fmt.Sprintf("fault of the servers in round %s: %d nodes that one of them had and the others had not, such as %s",
			r.record.Folder, len(phantoms), phantoms[0]))
	}
	return told
}

// haunted reports whether a client could not get a lock, named as in the record, because one
// server has nodes in its folders that the others have not.
func (r *roundReport) haunted(stuck string) bool {
	_, name, _ := strings.Cut(stuck, " ")
	for _, spec := range r.record.Locks {
		for _, phantom := range append(r.record.Left.Phantoms, r.record.After.Phantoms...) {
			if spec.Name == name && slices.Contains(spec.folders(), path.Dir(phantom)) {
				return true
			}
		}
	}
	return false
}

// stuck finds what did not end: locks that nobody could get in the end, processes that could not be
// closed or have left something behind, and calls that never returned.
func stuck(r *roundReport) (found []violation) {
	add := func(at int64, format string, args ...any) {
		found = append(found, violation{promise: nobodyStuck, round: r, at: at, what: fmt.Sprintf(format, args...)})
	}
	for _, lock := range r.record.Stuck {
		if r.haunted(lock) {
			continue
		}
		add(0, "%s could not be acquired after the last fault", lock)
	}
	killed := r.killed()
	for _, client := range slices.Sorted(maps.Keys(r.events)) {
		if killed[client] {
			continue
		}
		open := make(map[string]event) // acquisitions that were called
		isClosed := false
		for _, e := range r.events[client] {
			switch e.Kind {
			case called:
				open[e.Hold] = e
			case acquired, failed:
				delete(open, acquisition(e.Hold))
			case closed:
				isClosed = true
				if e.Error != "" {
					add(e.At, "client %s has left something behind: %s", client, e.Error)
				}
			default: // neither begins nor ends anything
			}
		}
		if !isClosed {
			add(0, "client %s was not closed, and not killed", client)
			continue
		}
		for _, e := range open {
			add(e.At, "acquisition %s of %s was called and has never returned", e.Hold, e.Lock)
		}
	}
	return found
}
