// SPDX-License-Identifier: Apache-2.0

package slots_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/x/slots"
)

// knownHardships are rows of TestHardships that do not hold, each with the reason.
var knownHardships = map[string]string{
	"many participants of one client, and one reset: TryTake": "processes that try at once see the same number free, and each round lets one have it",
}

// TestHardships takes numbers where life is hard.
func TestHardships(t *testing.T) { hardship.Run(t, slotCalls, knownHardships) }

// TestHardshipsAtEveryRequest takes numbers with every fate of every request.
func TestHardshipsAtEveryRequest(t *testing.T) { hardship.EveryFault(t, slotCalls) }

func TestHardshipsOfEveryCall(t *testing.T) {
	hardship.Complete(t, slotCalls, map[string]string{"Slot.Release": "the other rows release what they take"})
}

var slotCalls = []hardship.Call{
	slotRow("Take", "Slots.Take", 4, (*slots.Slots).Take),
	slotRow("Take with a delay", "Slots.Take", 5, (*slots.Slots).Take, slots.WithDelay(time.Millisecond)),
	slotRow("TryTake", "Slots.TryTake", 4, (*slots.Slots).TryTake),
}

// slotRow takes one of many numbers.
func slotRow(name, of string, requests int, take func(*slots.Slots, context.Context) (*slots.Slot, error), opts ...slots.Option) hardship.Call {
	return hardship.Call{
		Name: name, Of: []string{of}, Requests: requests,
		May: func(err error) bool {
			var lost *locks.LostError
			return errors.As(err, &lost)
		},
		Prepare: func(s *hardship.Stage) func(context.Context) error {
			const size = 1 << 10
			require.NoError(s.T, s.Theirs.Mkdirs(context.Background(), s.Path))
			ours := must.Get(slots.New(s.Ours, s.Path, size, opts...))(s.T)
			theirs := must.Get(slots.New(s.Theirs, s.Path, size, opts...))(s.T)
			var mu sync.Mutex
			var held []*slots.Slot
			giveBack := func() {
				for _, slot := range held {
					_ = slot.Release(context.Background()) // it may be lost
				}
				held = nil
			}
			s.End = func(error) { giveBack() }
			s.Rival = func() {
				giveBack()
				require.NoError(s.T, must.Get(theirs.Take(context.Background()))(s.T).Release(context.Background()))
			}
			return func(ctx context.Context) error {
				slot, err := take(ours, ctx)
				switch {
				case err != nil:
				case s.Crowd:
					_ = slot.Release(context.Background())
				default:
					mu.Lock()
					held = append(held, slot)
					mu.Unlock()
				}
				return err
			}
		},
	}
}
