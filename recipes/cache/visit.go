// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"

	"github.com/gocurator/curator/framework"
)

// batch is a number of nodes that are read in one write.
type batch struct {
	visits []visit
	reads  []framework.Read
	done   chan struct{}
	err    error // valid once done is closed
}

// visit is what is read of one node.
type visit struct {
	n    *node
	task task

	stat    *framework.Stat // of compare
	statErr error

	data     []byte
	dataStat framework.Stat
	absent   bool
	known    bool // the picture has the data, which was not decompressed
	dataErr  error

	names    []string
	listStat framework.Stat
	listErr  error

	dataWatch, childWatch *framework.Watch
}

// appendReads adds the requests of a visit to reads. On one-shot watches each read sets the
// watch that the node lacks.
func (v *visit) appendReads(reads []framework.Read, oneShot bool) []framework.Read {
	n, w := v.n, v.task.work
	armData := oneShot && n.armed.data == nil
	if w.asksStat(n, oneShot) {
		var opts []framework.ReadOption
		if armData {
			opts = append(opts, framework.Watched(&v.dataWatch))
		}
		reads = append(reads, framework.ReadStat(n.path, &v.stat, opts...).StoringErrorIn(&v.statErr))
	}
	if w&readData != 0 {
		opts := []framework.ReadOption{framework.StoringStatIn(&v.dataStat), framework.StoringAbsenceIn(&v.absent), framework.Undecompressed()}
		if armData {
			opts = append(opts, framework.Watched(&v.dataWatch))
		}
		reads = append(reads, framework.ReadData(n.path, &v.data, opts...).StoringErrorIn(&v.dataErr))
	}
	if w&list != 0 {
		opts := []framework.ReadOption{framework.StoringStatIn(&v.listStat)}
		if oneShot && n.armed.children == nil {
			opts = append(opts, framework.Watched(&v.childWatch))
		}
		reads = append(reads, framework.ReadChildren(n.path, &v.names, opts...).StoringErrorIn(&v.listErr))
	}
	return reads
}

// has reports whether a kind of work was done and found the znode.
func (v *visit) has(w work) bool {
	switch {
	case v.task.work&w == 0:
		return false
	case w == list:
		return v.listErr == nil
	default:
		return !v.absent
	}
}

// then returns work that follows from a visit. It counts as part of the same era and sweep.
func (v *visit) then(w work) task { return task{w, v.task.era, v.task.sweep} }

// newest returns the Stat that was read last, nil if there was no znode then.
func (v *visit) newest() *framework.Stat {
	// The requests leave in the order Stat, data, list, so the last one is the newest.
	switch {
	case v.task.work&list != 0:
		if v.listErr != nil {
			return nil
		}
		return &v.listStat
	case v.task.work&readData != 0:
		if v.absent {
			return nil
		}
		return &v.dataStat
	default:
		return v.stat
	}
}

// refusal returns why the server has not shown the znode, nil if there is none.
func (v *visit) refusal() error {
	for _, err := range []error{v.statErr, v.dataErr, v.listErr} {
		if err != nil && !errors.Is(err, framework.ErrNoNode) {
			return err
		}
	}
	return nil
}

// isBadData reports whether the server has shown all that it was asked for, and the data cannot
// be used.
func (v *visit) isBadData() bool {
	return v.dataErr != nil && v.dataStat.Czxid != 0 && v.statErr == nil && v.listErr == nil
}

func (v *visit) cancelWatches() {
	v.dataWatch.Cancel()
	v.childWatch.Cancel()
}
