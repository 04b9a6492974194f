// SPDX-License-Identifier: Apache-2.0

// Package chance is where clients draw random pauses and identifiers. Programs draw them from the system. In a simulation the
// context of a client carries a [Source], so that they follow from a seed.
package chance

import (
	"context"
	cryptorand "crypto/rand"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Source draws for one client. Each purpose has numbers of its own, as goroutines draw in any order. The nil Source draws from the
// system.
type Source struct {
	seed, client uint64

	mu      sync.Mutex            // guards randoms
	randoms map[string]*rand.Rand // by purpose
}

// New returns a source that draws the same for the same seed and client.
func New(seed, client uint64) *Source {
	return &Source{seed: seed, client: client, randoms: make(map[string]*rand.Rand)}
}

func (s *Source) lockedOf(purpose string) *rand.Rand {
	random := s.randoms[purpose]
	if random == nil {
		name := fnv.New64a()
		_, _ = name.Write([]byte(purpose)) // never fails
		random = rand.New(rand.NewPCG(s.seed, s.client^name.Sum64()))
		s.randoms[purpose] = random
	}
	return random
}

type key struct{}

// With returns a context whose calls draw from s.
func With(ctx context.Context, s *Source) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, s)
}

// Of returns the source of the calls that use ctx.
func Of(ctx context.Context) *Source {
	if ctx == nil { // which the call refuses
		return nil
	}
	s, _ := ctx.Value(key{}).(*Source)
	return s
}

// Below draws a duration from 0 to below bound, which must be positive.
func (s *Source) Below(purpose string, bound time.Duration) time.Duration {
	if s == nil {
		return rand.N(bound)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.lockedOf(purpose).Int64N(int64(bound)))
}

// Shuffle puts n elements into a random order.
func (s *Source) Shuffle(purpose string, n int, swap func(i, j int)) {
	if s == nil {
		rand.Shuffle(n, swap)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lockedOf(purpose).Shuffle(n, swap)
}

// ID draws 128 random bits. Those of the system are unguessable.
func (s *Source) ID(purpose string) (id [16]byte) {
	if s == nil {
		cryptorand.Read(id[:]) // never returns an error
		return id
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	random := s.lockedOf(purpose)
	binary.LittleEndian.PutUint64(id[:], random.Uint64())
	binary.LittleEndian.PutUint64(id[8:], random.Uint64())
	return id
}

// UUID draws a UUID of version 4.
func (s *Source) UUID(purpose string) string {
	id := uuid.UUID(s.ID(purpose))
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}
