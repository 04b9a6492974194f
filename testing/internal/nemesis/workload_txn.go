// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/x/txn"
)

// serializable is the promise that one order of the transactions explains what each has read and written.
const serializable promise = "not_serializable"

// txnWorkloads are clients that read and write several znodes as one transaction.
var txnWorkloads = []workload{{
	name: "txn", workers: 1, least: 60, folders: noFolders, prepare: prepareTxn,
	promises: []promise{serializable}, findAtServers: wrongTransactions,
	done: func(r *roundReport, spec lockSpec) (n int) {
		for _, events := range r.events {
			for _, e := range events {
				if e.Kind == transacted && e.Lock == spec.Name && e.Outcome == accepted {
					n++
				}
			}
		}
		return n
	},
}}

const (
	planned    eventKind = "planned"    // a transaction begins; Owner is its name, and Value its program
	transacted eventKind = "transacted" // it has ended; Value is what it has read
)

// txnPaths are the znodes of the transactions, below the path of the spec. They lie in two folders.
var txnPaths = [...]string{"/m/a", "/m/b", "/n/a", "/n/b"}

// txnState is the data of each; "" stands for none.
type txnState [len(txnPaths)]string

// program is a transaction: what it reads, by the places in txnPaths, and then writes.
type program struct {
	Reads   []int `json:"reads,omitempty"`
	List    bool  `json:"list,omitempty"`    // the children of /m
	Writes  []int `json:"writes,omitempty"`  // its name
	Deletes []int `json:"deletes,omitempty"` // if there is something
}

// seen is the text of what the program has read: the data of znodes, and the names of the children.
func seen(data, names []string) string {
	return strings.Join(data, ",") + "|" + strings.Join(names, ",")
}

// on returns what the program reads in a state, and the state that it leaves.
func (p program) on(state txnState, name string) (read string, next txnState) {
	var data, names []string
	for _, i := range p.Reads {
		data = append(data, state[i])
	}
	for i, path := range txnPaths {
		if child, ok := strings.CutPrefix(path, "/m/"); ok && p.List && state[i] != "" {
			names = append(names, child)
		}
	}
	for _, i := range p.Writes {
		state[i] = name
	}
	for _, i := range p.Deletes {
		state[i] = ""
	}
	return seen(data, names), state
}

// in runs the program, and returns what it has read.
func (p program) in(tx *txn.Tx, root, name string) (read string, err error) {
	var data, names []string
	for _, i := range p.Reads {
		value, err := tx.Get(root + txnPaths[i])
		if err != nil && !errors.Is(err, framework.ErrNoNode) {
			return "", err
		}
		data = append(data, string(value))
	}
	if p.List {
		if names, err = tx.Children(root + "/m"); err != nil {
			return "", err
		}
	}
	for _, i := range slices.Concat(p.Writes, p.Deletes) {
		path := root + txnPaths[i]
		exists, err := tx.Exists(path)
		switch isDeleted := slices.Contains(p.Deletes, i); {
		case err != nil:
		case exists && isDeleted:
			err = tx.Delete(path)
		case isDeleted:
		case exists:
			err = tx.Set(path, []byte(name))
		default:
			err = tx.Create(path, []byte(name))
		}
		if err != nil {
			return "", err
		}
	}
	return seen(data, names), nil
}

// newProgram returns a random one. One that deletes also writes, so that its name is in the servers' logs.
func (w *worker) newProgram() program {
	p := program{List: w.random.IntN(4) == 0, Reads: w.random.Perm(len(txnPaths))[:w.random.IntN(3)]}
	if places := w.random.Perm(len(txnPaths)); w.random.IntN(4) != 0 {
		p.Writes, p.Deletes = places[:1+w.random.IntN(2)], places[2:2+w.random.IntN(2)]
	}
	return p
}

func prepareTxn(w *worker) (func(context.Context), error) { return w.transact, nil }

// transact is a turn: one transaction.
func (w *worker) transact(ctx context.Context) {
	ctx, cancel := w.bounds(ctx)
	defer cancel()
	c := w.call(w.spec.Name, "", false)
	err := w.runProgram(ctx, c.id, w.newProgram())
	if err != nil {
		c.failed(monotonic(), err)
		return
	}
	c.ended(monotonic(), nil)
}

func (w *worker) runProgram(ctx context.Context, name string, p program) error {
	root := w.spec.path()
	for _, folder := range []string{"/m", "/n"} { // a restore may have taken them back
		if err := w.client.framework.Mkdirs(ctx, root+folder); err != nil {
			return err
		}
	}
	plan, err := json.Marshal(p)
	if err != nil {
		return err
	}
	w.client.history.add(event{Kind: planned, Owner: name, Lock: w.spec.Name, Value: string(plan)})
	var read string
	err = txn.Do(ctx, w.client.framework, func(tx *txn.Tx) (err error) {
		read, err = p.in(tx, root, name)
		return err
	})
	w.client.history.add(event{Kind: transacted, Owner: name, Lock: w.spec.Name, Value: read, Outcome: changed(err), Error: text(err)})
	return err
}
