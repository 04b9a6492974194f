// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// TestHistoryEndsWithoutAProof: a connection goes on with the history of the one before, unless
// something speaks against it.
func TestHistoryEndsWithoutAProof(t *testing.T) {
	const seen, sameEpoch, nextEpoch = 7<<32 | 5, 7<<32 | 9, 8 << 32
	comesBack := func(n *network) *peer {
		p := <-n.peers
		p.accept(0x51, sessionTimeout)
		return p
	}
	for _, c := range []struct {
		name string
		back func(n *network) *peer // which is the next connection
		zxid int64                  // of its first reply
		ends bool
	}{
		{"a reconnect", comesBack, sameEpoch, false},
		{"a server that names no transaction", comesBack, 0, false},
		{"another leader", comesBack, nextEpoch, true},
		{"a server that hangs up", func(n *network) *peer {
			p := <-n.peers
			<-p.connect
			_ = p.Close() // a pipe, whose Close does not fail
			return comesBack(n)
		}, sameEpoch, true},
		{"a session that has expired", func(n *network) *peer {
			(<-n.peers).accept(0, 0)
			p := <-n.peers
			p.accept(0x52, sessionTimeout)
			return p
		}, sameEpoch, true},
		{"a lease that is over", func(n *network) *peer {
			time.Sleep(sessionTimeout)
			n.hang.Store(false)
			return comesBack(n)
		}, sameEpoch, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				client, told, p := connected(t, n)
				answer := func(p *peer, zxid int64) {
					done := start(t.Context(), client, &conduit.Call{Op: 3})
					p.reply((<-p.frames).xid, zxid, 0, nil)
					require.NoError(t, (<-done).err)
				}
				before := client.History()
				require.NotZero(t, before)
				answer(p, seen)
				require.Equal(t, before, client.History())

				n.hang.Store(c.name == "a lease that is over")
				require.NoError(t, p.Close())
				p = c.back(n)
				for event := ""; !strings.HasPrefix(event, "connected"); {
					event = <-told.told
				}
				answer(p, c.zxid)
				now := client.History()
				require.Equal(t, c.ends, now > before, "from %d to %d", before, now)

				// A server that is connected may learn of a new leader later. It has gone on
				// from what it was shown to have.
				answer(p, nextEpoch<<1)
				require.Equal(t, c.zxid == 0, client.History() > now)
			})
		})
	}
}
