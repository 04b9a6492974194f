// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

const (
	opCreate2       = 15
	opDelete        = 2
	opGetEphemerals = 103

	ephemeral           = 1
	ephemeralSequential = 3

	zxidNow, zxidOfAnotherLeader = 7<<32 | 5, 8 << 32
)

func str(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}

func createBody(path string, mode uint32) []byte {
	b := append(str(path), str("data")...)
	b = binary.BigEndian.AppendUint32(b, 0) // no access control list
	return binary.BigEndian.AppendUint32(b, mode)
}

func strs(list ...string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(list)))
	for _, s := range list {
		b = append(b, str(s)...)
	}
	return b
}

// operationsBody is the body of a transaction.
func operationsBody(operations ...[]byte) []byte {
	var b []byte
	for _, o := range operations {
		b = append(b, o...)
	}
	return append(b, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff)
}

func operation(op int32, record []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(op))
	return append(append(b, 0, 0xff, 0xff, 0xff, 0xff), record...)
}

// do has the server answer a call, and fails the test if the call fails.
func do(t *testing.T, c *conduit.Conduit, p *peer, call *conduit.Call, code int32, body []byte) {
	t.Helper()
	done := start(t.Context(), c, call)
	p.reply((<-p.frames).xid, zxidNow, code, body)
	require.NoError(t, (<-done).err)
}

// comeBack accepts the next connection, of the same session.
func comeBack(n *network) *peer {
	p := <-n.peers
	p.silent.Store(true)
	p.accept(0x51, sessionTimeout)
	return p
}

// TestResumeShowsTheServersFirst: a connection that goes on with a session takes no call before a first reply
// has named the server's newest transaction. A call of the history before is not sent then.
func TestResumeShowsTheServersFirst(t *testing.T) {
	for name, zxid := range map[string]int64{
		"the same history": zxidNow, "another leader": zxidOfAnotherLeader, "a server that is behind": zxidNow - 1,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				c, told, p := connected(t, n)
				require.Empty(t, p.frames, "the first connection has nothing to compare")
				do(t, c, p, &conduit.Call{Op: 3}, 0, nil)
				history := c.History()
				require.NoError(t, p.Close())
				require.Equal(t, "disconnected", <-told.told)

				p = comeBack(n)
				first := <-p.frames
				require.EqualValues(t, opPing, first.op)
				require.ErrorIs(t, c.Do(t.Context(), &conduit.Call{Op: 5}), conduit.ErrNotConnected)
				time.Sleep(time.Second)
				require.Empty(t, told.told)
				require.Empty(t, p.frames)
				p.reply(first.xid, zxid, 0, nil)
				require.Equal(t, "connected 51 fresh=false", <-told.told)
				require.Empty(t, p.frames, "one round trip")

				done := start(t.Context(), c, &conduit.Call{Op: 5, History: history})
				if zxid != zxidNow {
					require.ErrorIs(t, (<-done).err, conduit.ErrOtherHistory)
					require.Empty(t, p.frames)
					do(t, c, p, &conduit.Call{Op: 5, History: c.History()}, 0, nil)
					return
				}
				p.reply((<-p.frames).xid, zxid, 0, nil)
				require.NoError(t, (<-done).err)
			})
		})
	}
}

// TestResumeComparesTheZnodesOfTheSession: restored servers may have ephemeral znodes that the session has
// deleted. It ends then, and does so before the server can know.
func TestResumeComparesTheZnodesOfTheSession(t *testing.T) {
	create := func(t *testing.T, c *conduit.Conduit, p *peer, path, created string, mode uint32) {
		do(t, c, p, &conduit.Call{Op: opCreate2, Body: createBody(path, mode)}, 0, append(str(created), make([]byte, 68)...))
	}
	remove := func(t *testing.T, c *conduit.Conduit, p *peer, path string, code int32) {
		do(t, c, p, &conduit.Call{Op: opDelete, Body: append(str(path), 0xff, 0xff, 0xff, 0xff)}, code, nil)
	}
	inDoubt := func(t *testing.T, c *conduit.Conduit, p *peer, op int32, body []byte) {
		start(t.Context(), c, &conduit.Call{Op: op, Body: body})
		<-p.frames
	}
	for name, test := range map[string]struct {
		before func(t *testing.T, c *conduit.Conduit, p *peer)
		has    []string // nil if it is not asked
		ghost  bool
	}{
		"no ephemeral znode": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			create(t, c, p, "/a", "/a", 0)
			remove(t, c, p, "/a", 0)
		}, nil, false},
		"one that lives": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			create(t, c, p, "/a-", "/a-0000000001", ephemeralSequential)
		}, []string{"/a-0000000001"}, false},
		"one that another client has deleted": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			create(t, c, p, "/a", "/a", ephemeral)
		}, []string{}, false},
		"one that was deleted": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			create(t, c, p, "/a-", "/a-0000000001", ephemeralSequential)
			remove(t, c, p, "/a-0000000001", 0)
		}, []string{"/a-0000000001"}, true},
		"one that was not found": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			create(t, c, p, "/a", "/a", ephemeral)
			remove(t, c, p, "/a", -101)
		}, []string{"/a"}, true},
		"one whose deletion an event has told": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			create(t, c, p, "/a", "/a", ephemeral)
			p.reply(-1, -1, 0, []byte{0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, '/', 'a'})
			do(t, c, p, &conduit.Call{Op: 3}, 0, nil)
		}, []string{"/a"}, true},
		"one whose creation is in doubt": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			create(t, c, p, "/b", "/b", ephemeral)
			inDoubt(t, c, p, opCreate2, createBody("/a-", ephemeralSequential))
		}, []string{"/a-0000000001", "/b"}, false},
		"one whose deletion is in doubt": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			create(t, c, p, "/a", "/a", ephemeral)
			inDoubt(t, c, p, opDelete, append(str("/a"), 0xff, 0xff, 0xff, 0xff))
		}, []string{"/a"}, false},
		"one of a transaction that is in doubt": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			inDoubt(t, c, p, opMulti, operationsBody(operation(1, createBody("/a", ephemeral))))
		}, []string{"/a"}, false},
		"those of a transaction": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			do(t, c, p, &conduit.Call{Op: opMulti, Body: operationsBody(
				operation(13, append(str("/"), 0xff, 0xff, 0xff, 0xff)),
				operation(5, append(append(str("/d"), str("data")...), 0xff, 0xff, 0xff, 0xff)),
				operation(19, createBody("/c", 4)),
				operation(1, createBody("/a", ephemeral)),
				operation(opDelete, append(str("/a"), 0xff, 0xff, 0xff, 0xff)),
				operation(1, createBody("/b-", ephemeralSequential)),
			)}, 0, operationsBody(operation(13, nil), operation(5, make([]byte, 68)), operation(19, append(str("/c"), make([]byte, 68)...)),
				operation(1, str("/a")), operation(opDelete, nil), operation(1, str("/b-0000000001"))))
		}, []string{"/b-0000000001"}, false},
		"one that a transaction has deleted": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			create(t, c, p, "/a", "/a", ephemeral)
			do(t, c, p, &conduit.Call{Op: opMulti, Body: operationsBody(operation(opDelete, append(str("/a"), 0xff, 0xff, 0xff, 0xff)))},
				0, operationsBody(operation(opDelete, nil)))
		}, []string{"/a"}, true},
		"one that a transaction has not deleted": {func(t *testing.T, c *conduit.Conduit, p *peer) {
			create(t, c, p, "/a", "/a", ephemeral)
			do(t, c, p, &conduit.Call{Op: opMulti, Body: operationsBody(operation(opDelete, append(str("/a"), 0, 0, 0, 9)))},
				0, operationsBody(operation(-1, []byte{0xff, 0xff, 0xff, 0x99})))
		}, []string{"/a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				c, told, p := connected(t, n)
				do(t, c, p, &conduit.Call{Op: 3}, 0, nil)
				test.before(t, c, p)
				require.NoError(t, p.Close())
				for event := ""; event != "disconnected"; {
					event = <-told.told
				}

				p = comeBack(n)
				p.reply((<-p.frames).xid, zxidOfAnotherLeader, 0, nil)
				if test.has == nil {
					require.Equal(t, "connected 51 fresh=false", <-told.told)
					return
				}
				question := <-p.frames
				require.EqualValues(t, opGetEphemerals, question.op)
				require.Empty(t, told.told)
				p.reply(question.xid, zxidOfAnotherLeader, 0, strs(test.has...))
				if !test.ghost {
					require.Equal(t, "connected 51 fresh=false", <-told.told)
					return
				}
				require.Equal(t, "expired", <-told.told)
				end := <-p.frames
				require.EqualValues(t, opClose, end.op)
				p.reply(end.xid, zxidOfAnotherLeader, 0, nil)
				p = <-n.peers
				p.accept(0, 0) // the server knows the session no more
				require.Equal(t, "expired", <-told.told)
				p = <-n.peers
				p.accept(0x52, sessionTimeout)
				require.Equal(t, "connected 52 fresh=true", <-told.told)
			})
		})
	}
}

// TestResumeServerThatCannotTellItsZnodes: it serves the client all the same. One that hangs up is asked three times, since any
// server does that when it ends.
func TestResumeServerThatCannotTellItsZnodes(t *testing.T) {
	asked := map[string]int{"it hangs up": 2} // again
	for name, answer := range map[string]func(p *peer, question frame){
		"it hangs up":             func(p *peer, _ frame) { _ = p.Close() },
		"it does not know that":   func(p *peer, question frame) { p.reply(question.xid, -1, -6, nil); _ = p.Close() },
		"it answers with no list": func(p *peer, question frame) { p.reply(question.xid, zxidOfAnotherLeader, 0, []byte{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				c, told, p := connected(t, n)
				do(t, c, p, &conduit.Call{Op: opCreate2, Body: createBody("/a", ephemeral)}, 0, append(str("/a"), make([]byte, 68)...))
				require.NoError(t, p.Close())
				require.Equal(t, "disconnected", <-told.told)
				p = comeBack(n)
				p.reply((<-p.frames).xid, zxidOfAnotherLeader, 0, nil)
				question := <-p.frames
				require.EqualValues(t, opGetEphemerals, question.op)
				answer(p, question)
				for range asked[name] {
					p = comeBack(n)
					p.reply((<-p.frames).xid, zxidOfAnotherLeader, 0, nil)
					question = <-p.frames
					require.EqualValues(t, opGetEphemerals, question.op)
					answer(p, question)
				}
				if name != "it answers with no list" {
					p = comeBack(n)
					p.reply((<-p.frames).xid, zxidOfAnotherLeader, 0, nil)
				}
				for event := ""; event != "connected 51 fresh=false"; {
					event = <-told.told
				}
				synctest.Wait()
				done := start(t.Context(), c, &conduit.Call{Op: 3})
				read := <-p.frames
				require.EqualValues(t, 3, read.op)
				p.reply(read.xid, zxidOfAnotherLeader, 0, nil)
				require.NoError(t, (<-done).err)
			})
		})
	}
}

// TestResumeAfterTheLeaseCatchesUpBeforeItCompares: the connect request names no transaction then, so the server
// may be behind the client's own deletions.
func TestResumeAfterTheLeaseCatchesUpBeforeItCompares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		c, told, p := connected(t, n)
		do(t, c, p, &conduit.Call{Op: opCreate2, Body: createBody("/a", ephemeral)}, 0, append(str("/a"), make([]byte, 68)...))
		n.hang.Store(true)
		require.NoError(t, p.Close())
		require.Equal(t, "disconnected", <-told.told)
		time.Sleep(sessionTimeout)
		n.hang.Store(false)
		p = comeBack(n)
		first := <-p.frames
		require.EqualValues(t, opMulti, first.op)
		p.reply(first.xid, zxidNow, 0, nil)
		question := <-p.frames
		require.EqualValues(t, opGetEphemerals, question.op)
		p.reply(question.xid, zxidNow, 0, strs("/a"))
		require.Equal(t, "connected 51 fresh=true", <-told.told)
	})
}
