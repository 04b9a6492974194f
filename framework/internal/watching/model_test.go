// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// standard is the mode of a one-shot watch at the model server.
const standard Mode = -1

// model is a server before ZooKeeper 3.9, which keeps one mode for each path in each of its
// two tables, and a connection to it that carries requests and replies in order.
type model struct {
	t        *testing.T
	r        *Registry
	tables   map[Kind]map[string]Mode
	cut      bool
	refuses  int32 // the code with which the server refuses the next persistent watch, 0 for none
	toServer []request
	toClient []delivery

	changes    map[Key]int // how often each has changed
	told       int         // the number of the change whose event is being delivered
	oneShot    []*Watch
	readAt     map[*Watch]int // the changes that the read of a watch has seen
	persistent []*Persistent
	seen       map[*Persistent]int // the changes of data that its owner knows of
}

type request struct {
	op   int32
	body []byte
	read *Watch // that the request asks for
	done func(conduit.Reply, error)
}

// delivery is an event, or the reply to a request.
type delivery struct {
	event   conduit.Notification
	change  int                        // the number of the event's change
	replies func(conduit.Reply, error) // nil for an event
	code    int32                      // of the reply
}

func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{t: t, changes: map[Key]int{}, readAt: map[*Watch]int{}, seen: map[*Persistent]int{}}
	m.r = New(Config{
		MaxRequest: 1 << 20, Lost: errLost,
		Refusal: func(call *conduit.Call, code int32) error { return refusal{call.Op, code} },
		MayPass: mayPass,
		Send: func(calls ...*conduit.Call) error {
			for _, c := range calls {
				if m.cut {
					c.OnDone(conduit.Reply{}, errNotSent)
					return errNotSent
				}
				m.toServer = append(m.toServer, request{op: c.Op, body: c.Body, done: c.OnDone})
			}
			return nil
		},
	})
	m.connect()
	return m
}

func (m *model) connect() {
	m.cut, m.tables = false, map[Kind]map[string]Mode{Data: {}, Children: {}}
	m.r.OnConnected()
}

func (m *model) lose() {
	answered, lost := m.toClient, m.toServer
	m.cut, m.toServer, m.toClient = true, nil, nil
	m.r.OnDisconnected()
	for _, d := range answered {
		if d.replies != nil {
			d.replies(conduit.Reply{}, errLost)
		}
	}
	for _, q := range lost {
		q.done(conduit.Reply{}, errLost)
	}
}

// serve lets the server process one request.
func (m *model) serve() {
	if len(m.toServer) == 0 {
		return
	}
	q := m.toServer[0]
	m.toServer = m.toServer[1:]
	d := wire.NewDecoder(q.body)
	if m.refuses != 0 && (q.op == wire.OpAddWatch || q.op == wire.OpSetWatches2) {
		m.toClient = append(m.toClient, delivery{replies: q.done, code: m.refuses})
		m.refuses = 0
		return
	}
	switch q.op {
	case wire.OpGetData, wire.OpGetChildren2:
		path := d.String()
		kind := map[int32]Kind{wire.OpGetData: Data, wire.OpGetChildren2: Children}[q.op]
		m.readAt[q.read] = m.changes[Key{path, kind}]
		if d.Bool() {
			m.tables[kind][path] = standard
		}
	case wire.OpAddWatch:
		m.add(d.String(), Mode(d.Int32()))
	case wire.OpSetWatches2:
		for range 2 {
			d.Int32() // half of the transaction
		}
		for range 3 {
			require.Zero(m.t, d.Int32())
		}
		for _, mode := range []Mode{Plain, Recursive} {
			for range d.Int32() {
				m.add(d.String(), mode)
			}
		}
	case wire.OpRemoveWatches:
		path, kind := d.String(), Kind(d.Int32())
		for of, table := range m.tables {
			if kind == anyKind || kind == of {
				delete(table, path)
			}
		}
	}
	require.NoError(m.t, d.Err())
	m.toClient = append(m.toClient, delivery{replies: q.done})
}

func (m *model) add(path string, mode Mode) {
	m.tables[Data][path], m.tables[Children][path] = mode, mode
}

// change fires the watches of a path at the server.
func (m *model) change(path string, kind Kind) {
	m.changes[Key{path, kind}]++
	mode, watched := m.tables[kind][path]
	if !watched {
		return
	}
	if mode == standard {
		delete(m.tables[kind], path)
	}
	event := map[Kind]zk.EventType{Data: zk.EventNodeDataChanged, Children: zk.EventNodeChildrenChanged}[kind]
	m.toClient = append(m.toClient, delivery{event: conduit.Notification{Type: event, Path: path}, change: m.changes[Key{path, kind}]})
}

// receive lets the client process one reply or event.
func (m *model) receive() {
	if len(m.toClient) == 0 {
		return
	}
	next := m.toClient[0]
	m.toClient = m.toClient[1:]
	if next.replies != nil {
		next.replies(conduit.Reply{Code: next.code}, nil)
		return
	}
	m.told = next.change
	m.r.OnNotified(next.event)
}

// settle lets all requests and replies arrive, and those that follow a pause.
func (m *model) settle() {
	m.refuses = 0
	for range 2 {
		for len(m.toServer)+len(m.toClient) > 0 {
			m.serve()
			m.receive()
		}
		rest(m.r)
	}
	require.Empty(m.t, m.toServer)
}

func (m *model) read(path string, kind Kind) {
	if m.cut {
		return
	}
	w := new(Watch)
	ask, done := m.r.Begin(w, Setting{Key: Key{path, kind}})
	var e wire.Encoder
	e.String(path)
	e.Bool(ask)
	op := map[Kind]int32{Data: wire.OpGetData, Children: wire.OpGetChildren2}[kind]
	m.toServer = append(m.toServer, request{op: op, body: e.Bytes(), read: w, done: done})
	m.oneShot = append(m.oneShot, w)
}

func (m *model) addWatch(path string, mode Mode) {
	if m.cut {
		return
	}
	var w *Persistent
	w = m.r.NewPersistent(path, mode, func(e Event) {
		switch {
		case e.Type == Resync: // its owner reads again
			m.seen[w] = m.changes[Key{path, Data}]
		case e.Type == zk.EventNodeDataChanged && e.Path == path:
			m.seen[w] = max(m.seen[w], m.told)
		}
	})
	m.seen[w] = m.changes[Key{path, Data}]
	m.persistent = append(m.persistent, w)
	if m.r.Join(w) {
		return
	}
	done := m.r.BeginPersistent(w)
	m.toServer = append(m.toServer, request{op: wire.OpAddWatch, body: AddWatchBody(path, mode), done: func(reply conduit.Reply, err error) {
		done(reply, err)
		m.seen[w] = m.changes[Key{path, Data}] // its owner reads now
		if err != nil || reply.Code != 0 {     // a client would make another try, or give up
			m.persistent = slices.DeleteFunc(m.persistent, func(p *Persistent) bool { return p == w })
		}
	}})
}

// cancel cancels one of the watches.
func (m *model) cancel(n int) {
	if n %= max(1, len(m.oneShot)+len(m.persistent)); n < len(m.oneShot) {
		m.oneShot[n].Cancel()
		m.oneShot = slices.Delete(m.oneShot, n, n+1)
	} else if n -= len(m.oneShot); n < len(m.persistent) {
		m.persistent[n].Cancel()
		m.persistent = slices.Delete(m.persistent, n, n+1)
	}
}

// check compares what the client counts on with what the server has, when nothing is under
// way.
func (m *model) check() {
	for _, w := range m.oneShot {
		select {
		case <-w.Fired():
			continue
		default:
		}
		if w.IsSet() {
			require.Contains(m.t, m.tables[w.key.Kind], w.key.Full, "a watch that never fires")
			require.Equal(m.t, m.changes[w.key], m.readAt[w], "a change that no watch has seen")
		}
	}
	for _, w := range m.persistent {
		select {
		case <-w.Done(): // refused
			continue
		default:
		}
		require.True(m.t, w.IsArmed())
		require.Equal(m.t, m.changes[Key{w.full, Data}], m.seen[w], "a change that no persistent watch has seen")
		for _, table := range m.tables {
			mode, watched := table[w.full]
			require.True(m.t, watched && mode != standard && (w.mode == Plain || mode == Recursive), "a persistent watch that misses events")
		}
	}
}

// TestRegistryAgreesWithTheServer makes many short histories of reads, persistent watches,
// changes, cancellations, refusals and lost connections, with requests and replies under way
// in between. Whenever nothing is under way, the server has each watch that the client counts
// on; and when all are cancelled, it has none.
func TestRegistryAgreesWithTheServer(t *testing.T) {
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testHistory(t, seed) })
		})
	}
}

func testHistory(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	m := newModel(t)
	for range 60 {
		path := []string{"/a", "/b", "/a/c"}[random.IntN(3)]
		kind := []Kind{Data, Children}[random.IntN(2)]
		switch random.IntN(13) {
		case 0, 1:
			m.read(path, kind)
		case 2:
			m.addWatch(path, Mode(random.IntN(modes)))
		case 3, 4:
			m.cancel(random.IntN(100))
		case 5:
			m.change(path, kind)
		case 6:
			if random.IntN(4) == 0 {
				m.lose()
				m.connect()
			}
		case 7:
			m.settle()
			m.check()
		case 8:
			m.refuses = []int32{throttled, noAuth}[random.IntN(2)]
		case 9, 10:
			m.serve()
		default:
			m.receive()
		}
	}
	m.settle()
	m.check()
	for len(m.oneShot)+len(m.persistent) > 0 {
		m.cancel(0)
	}
	m.settle()
	require.Empty(t, m.tables[Data])
	require.Empty(t, m.tables[Children])
	require.Zero(t, m.r.Known())
	require.Zero(t, m.r.Active())
}
