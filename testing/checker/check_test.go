// SPDX-License-Identifier: Apache-2.0

package checker_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/checker"
)

// acquire, read, release and so on make the operations of histories, whose moments
// are easy to read as small numbers.

func acquire(owner string, token, call, returned int64) checker.Op {
	return checker.Op{Kind: checker.Acquire, Lock: "/l", Owner: owner, Token: token, Call: call, Return: returned}
}

func release(owner string, call, returned int64) checker.Op {
	return checker.Op{Kind: checker.Release, Lock: "/l", Owner: owner, Call: call, Return: returned}
}

func read(owner string, token, call, returned int64) checker.Op {
	return shared(acquire(owner, token, call, returned))
}

func readEnds(owner string, call, returned int64) checker.Op {
	return shared(release(owner, call, returned))
}

func resize(n int, call, returned int64) checker.Op {
	return checker.Op{Kind: checker.Resize, Lock: "/l", N: n, Call: call, Return: returned}
}

func shared(op checker.Op) checker.Op {
	op.Shared = true
	return op
}

func on(lock string, op checker.Op) checker.Op {
	op.Lock = lock
	return op
}

func times(n int, op checker.Op) checker.Op {
	op.N = n
	return op
}

// What each model lets pass and what it refuses. Most of what is refused differs in
// one thing from what passes.
func TestCheckModels(t *testing.T) {
	t.Parallel()
	mutex, reentrant, readWrite, two := checker.Mutex(), checker.Reentrant(), checker.ReadWrite(), checker.Semaphore(2)
	type ops = []checker.Op
	for _, test := range []struct {
		name  string
		model checker.Model
		ok    bool
		ops   ops
	}{
		{"nothing", mutex, true, nil},
		{"in turn", mutex, true, ops{acquire("a", 1, 0, 1), release("a", 2, 3), acquire("b", 2, 1, 4)}},
		{"overlap", mutex, false, ops{acquire("a", 1, 0, 1), release("a", 3, 4), acquire("b", 2, 1, 2)}},
		{"overlap without an end", mutex, false, ops{acquire("a", 1, 0, 1), acquire("b", 2, 2, 3)}},
		{"granted while the release is under way", mutex, true, ops{acquire("a", 1, 0, 1), release("a", 3, 8), acquire("b", 2, 1, 4)}},
		{"token stays", mutex, false, ops{acquire("a", 1, 0, 1), release("a", 2, 3), acquire("b", 1, 4, 5)}},
		{"token falls", mutex, false, ops{acquire("a", 2, 0, 1), release("a", 2, 3), acquire("b", 1, 4, 5)}},
		{"no token", mutex, false, ops{acquire("a", 0, 0, 1)}},
		{"its owner again", mutex, false, ops{acquire("a", 1, 0, 1), acquire("a", 2, 2, 3)}},
		{"released twice", mutex, false, ops{acquire("a", 1, 0, 1), release("a", 2, 3), release("a", 4, 5)}},
		{"released by another", mutex, false, ops{acquire("a", 1, 0, 1), release("b", 2, 3)}},
		{"lost at an unknown time", mutex, true, ops{acquire("a", 1, 0, 1), release("a", 2, math.MaxInt64), acquire("b", 2, 3, 4)}},
		{"entered before the loss", mutex, false, ops{acquire("a", 1, 0, 1), release("a", 5, math.MaxInt64), acquire("b", 2, 3, 4)}},
		{"lost before it was returned", mutex, true, ops{acquire("a", 1, 0, 9), release("a", 3, 10), acquire("b", 2, 4, 5)}},
		{"two locks", mutex, true, ops{acquire("a", 1, 0, 1), on("/m", acquire("b", 1, 0, 1))}},
		{"the second of two locks", mutex, false, ops{acquire("a", 1, 0, 1), on("/m", acquire("b", 1, 0, 1)), on("/m", acquire("c", 2, 2, 3))}},

		{"in turn", reentrant, true, ops{acquire("a", 1, 0, 1), release("a", 2, 3), acquire("b", 2, 1, 4)}},
		{"overlap", reentrant, false, ops{acquire("a", 1, 0, 1), acquire("b", 2, 1, 2), release("a", 3, 4)}},
		{"its owner again", reentrant, true, ops{acquire("a", 1, 0, 1), acquire("a", 1, 2, 3), release("a", 4, 5), release("a", 6, 7), acquire("b", 2, 8, 9)}},
		{"its owner with another token", reentrant, false, ops{acquire("a", 1, 0, 1), acquire("a", 2, 2, 3)}},
		{"another one with its token", reentrant, false, ops{acquire("a", 1, 0, 1), acquire("b", 1, 2, 3)}},
		{"released once of twice", reentrant, false, ops{acquire("a", 1, 0, 1), acquire("a", 1, 2, 3), release("a", 4, 5), acquire("b", 2, 6, 7)}},
		{"its owner with the token of an earlier hold", reentrant, false, ops{acquire("a", 1, 0, 1), release("a", 2, 3), acquire("a", 1, 4, 5)}},

		{"readers", readWrite, true, ops{read("a", 1, 0, 1), read("b", 2, 2, 3), readEnds("a", 4, 5), readEnds("b", 6, 7), acquire("c", 3, 0, 8)}},
		{"readers in any order", readWrite, true, ops{read("a", 2, 0, 1), read("b", 1, 2, 3)}},
		{"a writer among readers", readWrite, false, ops{read("a", 1, 0, 1), acquire("b", 2, 2, 3)}},
		{"a reader with a writer", readWrite, false, ops{acquire("a", 1, 0, 1), read("b", 2, 2, 3)}},
		{"two writers", readWrite, false, ops{acquire("a", 1, 0, 1), acquire("b", 2, 2, 3)}},
		{"a writer below a reader", readWrite, false, ops{read("a", 2, 0, 1), readEnds("a", 2, 3), acquire("b", 1, 4, 5)}},
		{"a reader below a writer", readWrite, false, ops{acquire("a", 2, 0, 1), release("a", 2, 3), read("b", 1, 4, 5)}},
		{"downgrade", readWrite, true, ops{acquire("a", 1, 0, 1), read("a", 1, 2, 3), release("a", 4, 5), read("b", 2, 6, 7), readEnds("a", 8, 9)}},
		{"downgrade with a token of its own", readWrite, false, ops{acquire("a", 1, 0, 1), read("a", 2, 2, 3)}},
		{"a writer in the gap of a downgrade", readWrite, false, ops{
			acquire("a", 1, 0, 1), read("a", 1, 2, 7), release("a", 3, 4), acquire("b", 2, 5, 6), release("b", 8, 9),
		}},
		{"upgrade", readWrite, false, ops{read("a", 1, 0, 1), acquire("a", 2, 2, 3)}},
		{"the writer that has become a reader too", readWrite, true, ops{acquire("a", 1, 0, 1), read("a", 1, 2, 3), acquire("a", 1, 4, 5)}},

		{"permits", two, true, ops{acquire("a", 2, 0, 1), acquire("b", 1, 2, 3), release("a", 4, 5), acquire("c", 3, 1, 6)}},
		{"a permit too many", two, false, ops{acquire("a", 1, 0, 1), acquire("b", 2, 2, 3), acquire("c", 3, 4, 5)}},
		{"several together", two, true, ops{times(2, acquire("a", 1, 0, 1)), release("a", 2, 3), acquire("b", 2, 4, 5)}},
		{"several together are too many", two, false, ops{acquire("a", 1, 0, 1), times(2, acquire("b", 2, 2, 3))}},
		{"more were released than acquired", two, false, ops{acquire("a", 1, 0, 1), times(2, release("a", 2, 3))}},
		{"more permits", two, true, ops{times(2, acquire("a", 1, 0, 1)), resize(3, 2, 5), acquire("b", 2, 1, 4)}},
		{"more permits, too late", two, false, ops{times(2, acquire("a", 1, 0, 1)), acquire("b", 2, 1, 4), resize(3, 5, 6)}},
		{"fewer take none away", two, true, ops{times(2, acquire("a", 1, 0, 1)), resize(1, 2, 3), release("a", 4, 5), release("a", 6, 7), acquire("b", 2, 6, 8)}},
		{"fewer let nobody in", two, false, ops{times(2, acquire("a", 1, 0, 1)), resize(1, 2, 3), release("a", 4, 5), acquire("b", 2, 6, 7)}},
		{"none", two, false, ops{resize(0, 0, 1), acquire("a", 1, 2, 3)}},
	} {
		t.Run(test.model.String()+"/"+test.name, func(t *testing.T) {
			t.Parallel()
			err := checker.Check(test.model, test.ops)
			if test.ok {
				require.NoError(t, err)
				return
			}
			var violation *checker.ViolationError
			require.ErrorAs(t, err, &violation)
			require.False(t, violation.Undecided)
			require.NotEmpty(t, violation.Rest)
		})
	}
}

func TestCheckViolationTellsHowFarOneGets(t *testing.T) {
	err := checker.Check(checker.Mutex(), []checker.Op{
		acquire("b", 2, 4, 5), acquire("a", 1, 0, 1), release("a", 8, 9), on("/fine", acquire("c", 1, 0, 1)),
	})
	require.EqualError(t, err, `checker: /l is not what a mutex can have gone through: no order of these operations
    [0, 1] a acquire token 1
  ! [4, 5] b acquire token 2
  ! [8, 9] a release`)
	var violation *checker.ViolationError
	require.ErrorAs(t, err, &violation)
	var page bytes.Buffer
	require.NoError(t, violation.WriteHTML(&page))
	require.Contains(t, page.String(), "[4, 5] b acquire token 2")
}

// Bad input is no violation, and never passes for a good history.
func TestCheckWhatNobodyCanHaveRecorded(t *testing.T) {
	for want, op := range map[string]checker.Op{
		"it returns before it is called":   acquire("a", 1, 2, 1),
		`kind "", expected "acquire"`:      {Lock: "/l"},
		"n is -1, expected 0 or more":      times(-1, acquire("a", 1, 0, 1)),
		`kind "steal", expected "acquire"`: {Kind: "steal", Lock: "/l"},
	} {
		err := checker.Check(checker.Mutex(), []checker.Op{op})
		require.ErrorContains(t, err, want)
		line, marshalError := json.Marshal(op)
		require.NoError(t, marshalError)
		_, err = checker.ReadOps(bytes.NewReader(line))
		require.ErrorContains(t, err, want)
	}
}

func TestCheckMorePermitsThanAnIntHolds(t *testing.T) {
	err := checker.Check(checker.Semaphore(2), []checker.Op{
		{Kind: checker.Acquire, Lock: "/a", Owner: "one", Call: 1, Return: 2},
		{Kind: checker.Acquire, Lock: "/a", Owner: "two", N: math.MaxInt, Call: 3, Return: 4},
	})
	require.ErrorAs(t, err, new(*checker.ViolationError))
}

func TestCheckModelIsNeeded(t *testing.T) {
	require.ErrorContains(t, checker.Check(checker.Model{}, nil), "the zero Model")
}

func TestCheckHistoriesAsLines(t *testing.T) {
	history := checker.NewHistory()
	call := history.Now()
	second, first := times(2, acquire("b", 2, history.Now()+1, math.MaxInt64)), read("a", 1, call, history.Now())
	history.Add(second)
	history.Add(first)
	require.Equal(t, []checker.Op{first, second}, history.Ops())

	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, op := range history.Ops() {
		require.NoError(t, encoder.Encode(op))
	}
	require.Equal(t, 2, strings.Count(lines.String(), "\n"))
	whole := lines.String()
	ops, err := checker.ReadOps(&lines)
	require.NoError(t, err)
	require.Equal(t, history.Ops(), ops)

	ops, err = checker.ReadOps(strings.NewReader(whole[:len(whole)-5]))
	require.ErrorContains(t, err, "checker: operation 2 of a history: unexpected EOF")
	require.Equal(t, history.Ops()[:1], ops)
	_, err = checker.ReadOps(strings.NewReader(`{"kind":"acquire","lock":"/l","onwer":"a"}`))
	require.ErrorContains(t, err, `unknown field "onwer"`)
}
