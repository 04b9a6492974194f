// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"context"
	"errors"
	"io"
	"net"
	"time"
)

// minAttempt is the shortest time limit of an attempt to connect, even when the session
// is about to end.
const minAttempt = 50 * time.Millisecond

// attemptShare is the part of the granted session timeout that one attempt takes at
// most.
const attemptShare = 3

// minAddressAttempt is the time that each of several addresses of a name gets.
const minAddressAttempt = 2 * time.Second

// dialer makes the connections of a conduit.
type dialer struct {
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	lookup   func(ctx context.Context, host string) ([]string, error) // nil if dial does it
	timeout  time.Duration                                            // of one attempt
	patience time.Duration                                            // with the answer to a word
	hosts    *hosts
	lease    *leaseClock
	clock    *clock
}

// connect looks the server up, unless the dialer does, and connects to one of its
// addresses. It returns which, and the time by which the handshake must be done.
func (d *dialer) connect(ctx context.Context, network, server string) (socket net.Conn, to target, by time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.attemptLimit())
	defer cancel()
	d.hosts.attempt(cancel)
	defer d.hosts.attempt(nil)
	to = d.hosts.current()
	if to.server == server && to.address == "" && d.lookup != nil {
		if to, err = d.lookUp(ctx, server); err != nil {
			return nil, to, by, err
		}
	}
	// Again, since there may be more addresses to share the time now. It counts from now, as
	// the lookup has taken a part of the time already.
	ctx, done := context.WithTimeout(to.within(ctx), d.attemptLimit())
	defer done()
	by, _ = ctx.Deadline() // not after the deadline of the whole attempt
	socket, err = d.dial(ctx, network, server)
	return socket, target{server, to.address}, by, err
}

func (d *dialer) lookUp(ctx context.Context, server string) (target, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return target{}, err
	}
	found, err := d.lookup(ctx, host)
	if err != nil {
		return target{}, err
	}
	if len(found) == 0 {
		return target{}, errors.New("the name has no address")
	}
	addresses := make([]string, len(found))
	for i, address := range found {
		addresses[i] = net.JoinHostPort(address, port)
	}
	return d.hosts.found(addresses), nil
}

type addressKey struct{}

// within returns a context in which a dialer finds the address.
func (t target) within(ctx context.Context) context.Context {
	return context.WithValue(ctx, addressKey{}, t.address)
}

// Address returns the address of the server that a dialer must connect to, or "" if the
// dialer decides. The dialer gets the server's name as well, because TLS needs it.
func Address(ctx context.Context) string {
	address, _ := ctx.Value(addressKey{}).(string)
	return address
}

// attemptLimit bounds one attempt to connect: TCP, TLS and the handshake. While there is a
// session to save, the untried servers of this round share the rest of its time. So a paused
// server cannot use it up while other servers are healthy. The server of the last connection
// comes last and gets the time that is left. It may have fallen silent. Then a third of the
// session's time is left for all servers.
func (d *dialer) attemptLimit() time.Duration {
	left, granted := d.lease.left(d.clock.now())
	if left == 0 {
		// There is nothing to lose by waiting, but one of several addresses may be dead.
		return max(d.timeout/time.Duration(d.hosts.addressesLeft()), min(d.timeout, minAddressAttempt))
	}
	share := left / time.Duration(d.hosts.untried())
	// A single address may belong to several servers.
	share = min(share, granted/attemptShare)
	return min(d.timeout, max(share, minAttempt))
}

// maxAnswer bounds how much of the answer to a four-letter word is read.
const maxAnswer = 4 << 10

// ask sends a four-letter word to a server, over a separate connection, and returns the
// beginning of the answer.
func (d *dialer) ask(ctx context.Context, t target, word string) (string, error) {
	ctx, cancel := context.WithTimeout(t.within(ctx), min(d.timeout, d.patience))
	defer cancel()
	socket, err := d.dial(ctx, "tcp", t.server)
	if err != nil {
		return "", err
	}
	defer socket.Close()
	// A socket that refuses a deadline is closed, and the next call says so.
	stop := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(socket, word); err != nil {
		return "", err
	}
	// Some servers reset the connection behind the answer.
	answer, _ := io.ReadAll(io.LimitReader(socket, maxAnswer))
	return string(answer), nil
}
