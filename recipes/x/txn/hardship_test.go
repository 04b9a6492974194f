// SPDX-License-Identifier: Apache-2.0

package txn_test

import (
	"context"
	"testing"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/txn"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{
	"many participants of one client, and one reset: Do": "of n transactions on one znode at once, each round of requests lets one through",
}

// TestHardships makes transactions where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, txnCalls, knownHardships) }

// TestHardshipsAtEveryRequest makes transactions with every fate of every request.
func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, txnCalls) }

func TestHardshipsOfEveryCall(t *testing.T) { hardship.Complete(t, txnCalls, nil) }

var txnCalls = []hardship.Call{
	txnRow("Do", 4, framework.OutcomeUnknown, func(tx *txn.Tx, path string) error {
		got, err := tx.Get(path)
		if err != nil {
			return err
		}
		return tx.Set(path, append(got, '+'))
	}),
	txnRow("Do that reads", 4, nil, func(tx *txn.Tx, path string) error {
		if _, err := tx.Get(path); err != nil {
			return err
		}
		_, err := tx.Get("/")
		return err
	}),
}

// txnRow is a transaction on a znode that is there.
func txnRow(name string, requests int, may func(error) bool, fn func(tx *txn.Tx, path string) error) hardship.Call {
	return hardship.Call{
		Name: name, Of: []string{"Do"}, Requests: requests, May: may,
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			must.Get(s.Theirs.Create(context.Background(), s.Path, []byte("1")))(s.T)
			return func(ctx context.Context) error {
				return txn.Do(ctx, s.Ours, func(tx *txn.Tx) error { return fn(tx, s.Path) })
			}
		},
	}
}
