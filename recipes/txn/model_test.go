// SPDX-License-Identifier: Apache-2.0

package txn_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/txn"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// modelPaths are the znodes of the random programs. They lie in two folders.
var modelPaths = []string{"/m/a", "/m/b", "/n/a", "/n/b"}

// program is one transaction of a random program: what it reads, and then writes.
type program struct {
	reads  []string
	list   bool              // the children of /m
	writes map[string]string // the data, or "" for a deletion
}

func newProgram(random *rand.Rand, id string) program {
	p := program{list: random.IntN(4) == 0, writes: make(map[string]string)}
	for _, i := range random.Perm(len(modelPaths))[:random.IntN(3)] {
		p.reads = append(p.reads, modelPaths[i])
	}
	for _, i := range random.Perm(len(modelPaths))[:random.IntN(3)] {
		if p.writes[modelPaths[i]] = id; random.IntN(3) == 0 {
			p.writes[modelPaths[i]] = ""
		}
	}
	return p
}

// run is the program as the function of a transaction. It returns what it has read.
func (p program) run(tx *txn.Tx) (seen string, err error) {
	var out []string
	for _, path := range p.reads {
		got, err := tx.Get(path)
		if err != nil && !errors.Is(err, framework.ErrNoNode) {
			return "", err
		}
		out = append(out, string(got))
	}
	if p.list {
		names, err := tx.Children("/m")
		if err != nil {
			return "", err
		}
		out = append(out, strings.Join(names, "+"))
	}
	for path, value := range p.writes {
		exists, err := tx.Exists(path)
		switch {
		case err != nil:
		case value == "" && exists:
			err = tx.Delete(path)
		case value == "":
		case exists:
			err = tx.Set(path, []byte(value))
		default:
			err = tx.Create(path, []byte(value))
		}
		if err != nil {
			return "", err
		}
	}
	return strings.Join(out, ","), nil
}

// apply is the program on a state of the model.
func (p program) apply(state map[string]string) (seen string, next map[string]string) {
	var out []string
	for _, path := range p.reads {
		out = append(out, state[path])
	}
	if p.list {
		var names []string
		for _, path := range modelPaths {
			if state[path] != "" && strings.HasPrefix(path, "/m/") {
				names = append(names, strings.TrimPrefix(path, "/m/"))
			}
		}
		out = append(out, strings.Join(names, "+"))
	}
	next = make(map[string]string)
	for _, path := range modelPaths {
		next[path] = state[path]
		if value, ok := p.writes[path]; ok {
			next[path] = value
		}
	}
	return strings.Join(out, ","), next
}

// outcome is what a client knows of a transaction.
type outcome struct {
	seen    string
	unknown bool // it may have been applied, and what it read is not known
}

var model = porcupine.Model{
	Init: func() any { return map[string]string{} },
	Step: func(state, input, output any) (bool, any) {
		seen, next := input.(program).apply(state.(map[string]string))
		got := output.(outcome)
		return got.unknown || got.seen == seen, next
	},
	Equal: func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) },
}

// TestModelTransactionsAreSerializable runs random transactions of several clients, with znodes that are deleted
// and created again, and with lost requests and replies. There must be a serial order of
// the transactions that explains what each has read.
func TestModelTransactionsAreSerializable(t *testing.T) {
	trials := 6
	if seeds.Long() {
		trials = 100
	}
	random := seeds.New(t)
	for trial := range trials {
		server := zktest.NewServer(t)
		faults := rand.New(rand.NewPCG(random.Uint64(), 0))
		admin := zktest.Client(t, server)
		must(t, admin.Mkdirs(zktest.Context(t), "/m"))
		must(t, admin.Mkdirs(zktest.Context(t), "/n"))
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpMulti && faults.IntN(15) == 0 {
				return []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply}[faults.IntN(2)]
			}
			return zkserver.Pass
		})
		var (
			mu      sync.Mutex
			history []porcupine.Operation
			wg      sync.WaitGroup
		)
		began := time.Now()
		for id := range 4 {
			client := zktest.Client(t, server, framework.WithRetryPolicy(retry.Forever(time.Millisecond)))
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			wg.Go(func() {
				for n := range 12 {
					p := newProgram(own, fmt.Sprintf("%d.%d", id, n))
					call := time.Since(began)
					var out outcome
					err := txn.Do(zktest.Context(t), client, func(tx *txn.Tx) (err error) {
						out.seen, err = p.run(tx)
						return err
					})
					op := porcupine.Operation{ClientId: id, Input: p, Call: int64(call), Return: int64(time.Since(began))}
					switch {
					case framework.OutcomeUnknown(err):
						out = outcome{unknown: true}
						// It may have been applied or not. The model has both: an operation that may
						// come last, after all that look.
						op.Return = int64(time.Hour)
					case err != nil:
						t.Errorf("client %d: %v", id, err)
						return
					}
					op.Output = out
					mu.Lock()
					history = append(history, op)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if result := porcupine.CheckOperationsTimeout(model, history, time.Minute); result != porcupine.Ok {
			slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
			for _, op := range history {
				t.Logf("%d %6d to %6d µs: %+v -> %+v", op.ClientId, op.Call/1000, op.Return/1000, op.Input, op.Output)
			}
			require.Fail(t, "not serializable", "trial %d: %s", trial, result)
		}
	}
}
