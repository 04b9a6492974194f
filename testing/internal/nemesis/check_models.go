// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gocurator/curator/testing/checker"
)

// A lock's history is checked in parts. Each part has partSize holds, which are two operations
// each, and shares partOverlap of them with the next part.
//
// What is legal as a whole is legal in parts: any model that allows a history allows it
// without one of its holds. What the seams hide from the models is left to the check of
// overlaps, which has no seams.
const (
	partSize    = 1000
	partOverlap = 100
)

// models checks the history of each lock against the model of its recipe.
func models(r *roundReport) (found []violation, err error) {
	for lock, all := range r.locks {
		kind := workloadOf(all[0].spec)
		if kind.model == nil {
			continue
		}
		model := kind.model(all[0].spec)
		for number, part := range parts(all) {
			err := checker.Check(model, operations(part))
			var breach *checker.ViolationError
			switch {
			case err == nil:
				continue
			case !errors.As(err, &breach):
				return nil, fmt.Errorf("nemesis: %w", err)
			}
			picture, err := draw(r.folder, fmt.Sprintf("%s.%d.html", lock, number), breach)
			if err != nil {
				return nil, err
			}
			found = append(found, against(r, part, picture, breach))
		}
	}
	return found, nil
}

// against is what a part of a history has against its model.
func against(r *roundReport, part []*hold, picture string, breach *checker.ViolationError) violation {
	v := violation{promise: legal, round: r, at: part[0].acquired}
	if breach.Undecided {
		v.promise = decided
		v.what = fmt.Sprintf("%s: %d operations of a %v took too long to check, see %s", breach.Lock, 2*len(part), breach.Model, picture)
		return v
	}
	v.what = fmt.Sprintf("%s: not what a %v can have gone through, see %s: after %d of %d operations%s",
		breach.Lock, breach.Model, picture, len(breach.Fits), 2*len(part), stuckAt(r, breach))
	if len(breach.Rest) > 0 {
		v.at = breach.Rest[0].Return
	}
	return v
}

// parts cuts a history into parts that are not too long to be checked.
func parts(all []*hold) (cut [][]*hold) {
	for len(all) > partSize {
		cut = append(cut, all[:partSize])
		all = all[partSize-partOverlap:]
	}
	return append(cut, all)
}

// operations returns the holds as the models know them.
//
// A hold begins at some moment of the call that acquired it. It ends between the moment when it was
// last seen valid and the moment when its holder knew that it was over. A process that was killed
// never knows.
//
// If the holder certainly had the lock when the call returned, the hold is taken to begin then, and to
// end as early as possible. What is legal with a longer hold is legal with this one too. The search then
// takes milliseconds, because it need not try all orders in which contenders that waited together may
// have been granted. How holds overlap matters only where they share a token: for an owner that re-enters
// and for a writer that becomes a reader.
func operations(all []*hold) (ops []checker.Op) {
	withToken := make(map[int64]int)
	for _, h := range all {
		withToken[h.token]++
	}
	entered := make(map[int64]bool) // tokens
	for _, h := range all {
		again := entered[h.token]
		entered[h.token] = true
		if again && h.validUntil() < h.called {
			continue // a re-entry after something from outside had ended what it enters
		}
		op := checker.Op{
			Kind: checker.Acquire, Lock: h.lock, Owner: h.owner, Shared: h.shared, Token: h.token, Call: h.called, Return: h.acquired,
		}
		end := op
		end.Kind, end.Token = checker.Release, 0
		end.Call = max(h.validUntil(), h.called)
		end.Return = max(h.endedBy(), end.Call)
		if alone := withToken[h.token] == 1 || h.spec.Permits > 0; alone && h.sure() {
			op.Call, end.Return = op.Return, end.Call
		}
		ops = append(ops, op, end)
	}
	return ops
}

// draw saves a picture of the violation, and returns where.
func draw(folder, name string, breach *checker.ViolationError) (path string, err error) {
	path = filepath.Join(folder, strings.ReplaceAll(name, string(filepath.Separator), "_"))
	file, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("nemesis: picture: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return path, breach.WriteHTML(file)
}

// stuckAt are the operations around the place where no order goes on.
func stuckAt(r *roundReport, breach *checker.ViolationError) string {
	const shown = 4
	var b strings.Builder
	line := func(mark string, op checker.Op) {
		fmt.Fprintf(&b, "\n    %s %s to %s: %s by %s, token %#x", mark, r.since(op.Call), r.since(op.Return), op.Kind, op.Owner, op.Token)
	}
	for _, op := range breach.Fits[max(0, len(breach.Fits)-shown):] {
		line(" ", op)
	}
	for _, op := range breach.Rest[:min(shown, len(breach.Rest))] {
		line("!", op)
	}
	return b.String()
}
