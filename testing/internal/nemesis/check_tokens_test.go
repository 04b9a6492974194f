// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckTokens(t *testing.T) {
	t.Parallel()
	kept(t, tokens, goodPlan())
	text := broken(t, tokens, risingTokens, only(mutexSpec, nil, take("a", "mutex-s", 2, 5, 10), take("b", "mutex-s", 1, 11, 15)))
	require.Contains(t, text, "mutex-s: token 0x1 after 0x2")
	first := take("a", "mutex-s", 2, 5, 10)
	next := change(take("b", "mutex-s", 3, 11, 15), func(e *event) { e.Token = 2 })
	broken(t, tokens, risingTokens, only(mutexSpec, nil, first, next))
	broken(t, tokens, risingTokens, only(mutexSpec, nil, change(take("b", "mutex-s", 3, 11, 15), func(e *event) { e.Token = 0 })))

	// A row that one client hands on to itself has one node and token.
	row := change(take("a", "handoff-s", 3, 11, 15), func(e *event) { e.Token, e.Node = 2, node("handoff-s", "lock-", 2) })
	kept(t, tokens, only(handoffSpec, nil, take("a", "handoff-s", 2, 5, 10), row))
	outer := take("a", "reentrant-s", 2, 5, 30)
	inner := change(take("a", "reentrant-s", 3, 8, 10), ownedBy(outer[1].Owner, 2))
	kept(t, tokens, only(reentrantSpec, nil, outer, inner))

	// Those of a semaphore say nothing.
	kept(t, tokens, only(semaphoreSpec, nil, take("a", "semaphore-s", 2, 5, 30), take("b", "semaphore-s", 1, 8, 10)))
}

func TestCheckTokensOfReadersAndWriters(t *testing.T) {
	t.Parallel()
	reader := func(client string, token int, from, to int64) []event {
		return change(take(client, "readwrite-s", token, from, to), asReader)
	}
	writer := func(token int, from, to int64) []event { return take("w", "readwrite-s", token, from, to) }
	kept(t, tokens, only(readWriteSpec, nil, writer(1, 2, 4), reader("a", 3, 5, 30), reader("b", 2, 8, 10), writer(4, 31, 32)))
	broken(t, tokens, risingTokens, only(readWriteSpec, nil, writer(3, 2, 4), reader("a", 2, 5, 30)))
	broken(t, tokens, risingTokens, only(readWriteSpec, nil, reader("a", 3, 5, 30), writer(2, 31, 32)))
	broken(t, tokens, risingTokens, only(readWriteSpec, nil, writer(1, 2, 4), reader("a", 3, 5, 30), writer(1, 31, 32)))

	first := writer(1, 2, 10)
	kept(t, tokens, only(readWriteSpec, nil, first, change(reader("a", 2, 5, 30), ownedBy(first[1].Owner, 1)), writer(4, 31, 32)))
}

func TestCheckTokensFIFO(t *testing.T) {
	t.Parallel()
	kept(t, fifo, goodPlan())
	text := broken(t, fifo, firstComeFirst, only(mutexSpec, nil, take("a", "mutex-s", 6, 5, 10), take("b", "mutex-s", 5, 11, 15)))
	require.Contains(t, text, "number 5 of the queue was granted after number 6")
	// A folder that was created anew begins at 0, with greater tokens.
	anew := change(take("b", "mutex-s", 9, 11, 15), func(e *event) { e.Node = node("mutex-s", "lock-", 0) })
	kept(t, fifo, only(mutexSpec, nil, take("a", "mutex-s", 6, 5, 10), anew))
}
