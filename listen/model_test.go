// SPDX-License-Identifier: Apache-2.0

package listen_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gocurator/curator/listen"
)

// TestModel compares a Set with what a plain slice per listener predicts, over random sequences of calls.
func TestModel(t *testing.T) {
	type member struct {
		recorder
		registration *listen.Registration
		want         []int
	}
	rapid.Check(t, func(rt *rapid.T) {
		var (
			set           listen.Set[int]
			present, gone []*member
			next          int
		)
		check := func() {
			flush(t, &set)
			for i, m := range present {
				if !slices.Equal(m.want, m.told) {
					rt.Fatalf("listener %d of %d: got %v, want %v", i, len(present), m.told, m.want)
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(*rapid.T) {
				m := new(member)
				m.registration = set.Add(m.listen)
				present = append(present, m)
			},
			"notify": func(rt *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(rt, "values") {
					set.Notify(next)
					for _, m := range present {
						m.want = append(m.want, next)
					}
					next++
				}
			},
			"remove": func(rt *rapid.T) {
				if len(present) == 0 {
					rt.Skip("no listener")
				}
				i := rapid.IntRange(0, len(present)-1).Draw(rt, "listener")
				present[i].registration.Remove()
				gone = append(gone, present[i])
				present = slices.Delete(present, i, i+1)
			},
			"remove again": func(*rapid.T) {
				for _, m := range gone {
					m.registration.Remove()
				}
			},
			"flush": func(*rapid.T) { check() },
			"": func(rt *rapid.T) {
				if set.Len() != len(present) {
					rt.Fatalf("Len() = %d, want %d", set.Len(), len(present))
				}
			},
		})
		check()
		for _, m := range gone {
			receive(t, m.registration.Done(), "a removed listener")
			if len(m.told) > len(m.want) || !slices.Equal(m.want[:len(m.told)], m.told) {
				rt.Fatalf("removed listener: got %v, want a prefix of %v", m.told, m.want)
			}
		}
	})
}
