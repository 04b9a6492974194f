// SPDX-License-Identifier: Apache-2.0

package txn_test

import (
	"errors"
	"fmt"
	"maps"
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
	"github.com/gocurator/curator/recipes/x/txn"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// The znodes of the random programs. Folders come and go, and one of the znodes may be ephemeral, so that it can have no children.
var (
	modelFolders = []string{"/r", "/r/f", "/r/f/g"}
	modelPaths   = []string{"/r/a", "/r/f", "/r/f/a", "/r/f/g", "/r/f/g/a"}
)

// step is one call within a transaction.
type step struct{ op, path, value string }

// program is one transaction of a random program. A restore of the servers, and the backup for it, are programs of one step.
type program []step

func newProgram(random *rand.Rand, id string, ephemerals bool) program {
	ops := []string{"get", "exists", "children"}
	if random.IntN(3) != 0 {
		ops = append(ops, "put", "put", "remove", "set")
		if ephemerals {
			ops = append(ops, "ephemeral")
		}
	}
	var p program
	for n := range 1 + random.IntN(4) {
		s := step{ops[random.IntN(len(ops))], modelPaths[random.IntN(len(modelPaths))], fmt.Sprintf("%s.%d", id, n)}
		if s.op == "children" {
			s.path = modelFolders[random.IntN(len(modelFolders))]
		}
		p = append(p, s)
	}
	return p
}

// view is what a program works on: a transaction, or the state of the model.
type view interface {
	Get(path string) ([]byte, error)
	Exists(path string) (bool, error)
	Children(path string) ([]string, error)
	Set(path string, data []byte) error
	Create(path string, data []byte) error
	CreateEphemeral(path string, data []byte) error
	Delete(path string) error
}

// run returns what the program has seen: the results of its calls, and their errors.
func (p program) run(v view) (string, error) {
	var seen []string
	for _, s := range p {
		what, err := s.run(v)
		known := []error{framework.ErrNoNode, framework.ErrNodeExists, framework.ErrNoChildrenForEphemerals}
		if i := slices.IndexFunc(known, func(k error) bool { return errors.Is(err, k) }); i >= 0 {
			what, err = known[i].Error(), nil
		}
		if err != nil {
			return "", err
		}
		seen = append(seen, what)
	}
	return strings.Join(seen, ","), nil
}

func (s step) run(v view) (string, error) {
	switch s.op {
	case "get":
		got, err := v.Get(s.path)
		return string(got), err
	case "children":
		names, err := v.Children(s.path)
		return strings.Join(names, "+"), err
	case "set":
		return "", v.Set(s.path, []byte(s.value))
	case "remove":
		return "", remove(v, s.path)
	}
	exists, err := v.Exists(s.path)
	switch {
	case err != nil || s.op == "exists":
	case exists:
		err = v.Set(s.path, []byte(s.value))
	case s.op == "ephemeral":
		err = v.CreateEphemeral(s.path, []byte(s.value))
	default:
		err = v.Create(s.path, []byte(s.value))
	}
	return fmt.Sprint(exists), err
}

func remove(v view, path string) error {
	names, err := v.Children(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := remove(v, path+"/"+name); err != nil {
			return err
		}
	}
	return v.Delete(path)
}

// tree is the state of the model: the data of the znodes. That of an ephemeral one begins with ephemeralMark.
type tree map[string]string

const ephemeralMark = "ephemeral "

func (s tree) Get(path string) ([]byte, error) {
	data, ok := s[path]
	if !ok {
		return nil, framework.ErrNoNode
	}
	return []byte(strings.TrimPrefix(data, ephemeralMark)), nil
}

func (s tree) Exists(path string) (bool, error) { _, ok := s[path]; return ok, nil }

func (s tree) Children(path string) ([]string, error) {
	if _, ok := s[path]; !ok {
		return nil, framework.ErrNoNode
	}
	var names []string
	for p := range s {
		if parent, name := framework.SplitPath(p); parent == path {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (s tree) Set(path string, data []byte) error {
	before, ok := s[path]
	if !ok {
		return framework.ErrNoNode
	}
	if s[path] = string(data); strings.HasPrefix(before, ephemeralMark) {
		s[path] = ephemeralMark + string(data)
	}
	return nil
}

func (s tree) Create(path string, data []byte) error {
	parent, _ := framework.SplitPath(path)
	above, ok := s[parent]
	switch {
	case !ok:
		return framework.ErrNoNode
	case strings.HasPrefix(above, ephemeralMark):
		return framework.ErrNoChildrenForEphemerals
	}
	s[path] = string(data)
	return nil
}

func (s tree) CreateEphemeral(path string, data []byte) error {
	return s.Create(path, []byte(ephemeralMark+string(data)))
}

func (s tree) Delete(path string) error { delete(s, path); return nil }

// both states of the model are what there is, and what there was at the backup.
type states struct{ now, backup tree }

func (s states) next(p program) (string, states) {
	s.now = maps.Clone(s.now)
	switch p[0].op {
	case "backup":
		return "", states{s.now, s.now}
	case "restore":
		return "", states{s.backup, s.backup}
	}
	seen, err := p.run(s.now)
	if err != nil {
		panic(err)
	}
	return seen, s
}

// outcome is what a client knows of a transaction.
type outcome struct {
	seen    string
	unknown bool // it may have been applied, and what it read is not known
}

var model = porcupine.Model{
	Init: func() any { return states{tree{"/r": ""}, tree{}} },
	Step: func(state, input, output any) (bool, any) {
		seen, next := state.(states).next(input.(program))
		got := output.(outcome)
		return got.unknown || got.seen == seen, next
	},
	Equal: func(a, b any) bool {
		return maps.Equal(a.(states).now, b.(states).now) && maps.Equal(a.(states).backup, b.(states).backup)
	},
}

// histories is what the clients of a trial have done.
type histories struct {
	began time.Time
	mu    sync.Mutex
	all   []porcupine.Operation
}

// add makes a call and adds it.
func (h *histories) add(client int, p program, call func() (outcome, error)) error {
	op := porcupine.Operation{ClientId: client, Input: p, Call: int64(time.Since(h.began))}
	out, err := call()
	op.Output, op.Return = out, int64(time.Since(h.began))
	if err != nil {
		return err
	}
	if out.unknown {
		// It may have been applied or not. The model has both: an operation that may
		// come last, after all that look.
		op.Return = int64(time.Hour)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, op)
	return nil
}

// TestModelTransactionsAreSerializable runs random transactions of several clients, with znodes and folders that are
// deleted and created again, and with lost requests and replies. In every third trial the servers are restored from a backup, which takes
// transactions back. There are no ephemeral znodes then, because clients may end their sessions after a restore. There must be a serial order of the transactions that explains what each has seen.
func TestModelTransactionsAreSerializable(t *testing.T) {
	trials := 9
	if seeds.Long() {
		trials = 100
	}
	random := seeds.New(t)
	for trial := range trials {
		isRestored := trial%3 == 2
		server := zktest.NewServer(t)
		faults := rand.New(rand.NewPCG(random.Uint64(), 0))
		admin := zktest.Client(t, server)
		must(t, admin.Mkdirs(zktest.Context(t), "/r"))
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			switch {
			case r.Op == zkserver.OpMulti && faults.IntN(15) == 0:
				return []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply}[faults.IntN(2)]
			case r.Op != zkserver.OpPing && r.Op != zkserver.OpCreateSession && faults.IntN(3) == 0:
				return zkserver.Delay(time.Duration(faults.IntN(1500)) * time.Microsecond)
			}
			return zkserver.Pass
		})
		h := &histories{began: time.Now()}
		var wg sync.WaitGroup
		for id := range 4 {
			client := zktest.Client(t, server, framework.WithRetryPolicy(retry.Forever(time.Millisecond)))
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			wg.Go(func() {
				for n := range 12 {
					p := newProgram(own, fmt.Sprintf("%d-%d", id, n), !isRestored)
					err := h.add(id, p, func() (out outcome, err error) {
						err = txn.Do(zktest.Context(t), client, func(tx *txn.Tx) (err error) {
							out.seen, err = p.run(tx)
							return err
						})
						if framework.OutcomeUnknown(err) {
							return outcome{unknown: true}, nil
						}
						return out, err
					})
					if err != nil {
						t.Errorf("client %d, %v: %v", id, p, err)
						return
					}
				}
			})
		}
		if isRestored {
			restore(t, h, server, time.Duration(random.IntN(20))*time.Millisecond)
		}
		wg.Wait()
		if result := porcupine.CheckOperationsTimeout(model, h.all, time.Minute); result != porcupine.Ok {
			slices.SortFunc(h.all, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
			for _, op := range h.all {
				t.Logf("%d %6d to %6d µs: %+v -> %+v", op.ClientId, op.Call/1000, op.Return/1000, op.Input, op.Output)
			}
			require.Fail(t, "not serializable", "trial %d: %s", trial, result)
		}
	}
}

// restore makes a backup and, a while later, has the servers go back to it, in an epoch of their own.
func restore(t *testing.T, h *histories, server *zkserver.Server, after time.Duration) {
	t.Helper()
	time.Sleep(after)
	var backup *zkserver.Backup
	require.NoError(t, h.add(4, program{{op: "backup"}}, func() (outcome, error) {
		backup = server.Backup()
		return outcome{}, nil
	}))
	time.Sleep(after)
	require.NoError(t, h.add(4, program{{op: "restore"}}, func() (outcome, error) {
		return outcome{}, errors.Join(server.Stop(), server.Restore(backup, 1), server.Restart())
	}))
}
