// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/chance"
	"github.com/gocurator/curator/internal/secrets"
)

// Handshake is a server's answer when it accepts the session.
type Handshake struct {
	SessionID int64
	Password  secrets.Secret
	Timeout   time.Duration // negotiated
	Server    string
	ReadOnly  bool // the server takes no writes, and no other knows the session

	// Fresh means that nothing held before can be relied on: the session is new, or
	// its lease had ended.
	Fresh bool
}

// Session names a session, and proves the right to it.
type Session struct {
	ID       int64
	Password secrets.Secret
}

// Notification is a watch event.
type Notification struct {
	Type zk.EventType
	Path string
}

// Events receives what happens to the connection; see the package comment for the order.
// The methods must not block, and must not call Close.
type Events interface {
	// Connected is called when a server has accepted the session.
	Connected(Handshake)

	// Revived is called when a reply opens another lease after the lease of the session had
	// ended. The connection never ended, so the server still knows the session. The handshake is
	// the connection's own, with Fresh set.
	Revived(Handshake)

	// Disconnected is called when a connection with a session has ended, with the reason.
	Disconnected(error)

	// Expired is called when a server no longer knows the session.
	Expired()

	// Notified is called with a watch event.
	Notified(Notification)

	// Resumed is called when the machine was suspended, so a deadline may have passed before its
	// timer noticed. Unlike the other events it may be called at any time.
	Resumed()

	// AuthFailed is called when a server has refused the client, or there is no credential to
	// present. The connection ends. All is set when all servers have refused. If that is final,
	// the conduit makes no other connection.
	AuthFailed(err error, all, final bool)
}

// Failure is an attempt to connect that has failed.
type Failure struct {
	Reason  error
	Servers int  // how many addresses the servers have, as far as they have been looked up
	Reached bool // the server has accepted the session, but the exchange of SASL is not complete
	Unfit   bool // no server has a certificate that can be verified
}

// Config has the settings of a Conduit. Every field is required except Ensemble, Rank, Lookup,
// Tick, Auth, SASL, ReadOnly, Plain, Failed, Resume, Chance, Register, Ended and Suspended.
type Config struct {
	Servers        []string
	Ensemble       func() []string         // the servers from now on, at least one; asked before each round of attempts
	Rank           func(server string) int // of servers with equal ranks the order is random; nil if all are equal
	SessionTimeout time.Duration
	ConnectTimeout time.Duration // bounds one attempt: TCP, TLS and handshake
	MaxRequest     int           // bytes, without the header
	MaxReply       int           // bytes
	Dial           func(ctx context.Context, network, address string) (net.Conn, error)
	Lookup         func(ctx context.Context, host string) ([]string, error) // nil if the dialer does it; see Address
	Events         Events
	Logger         *slog.Logger
	Tick           time.Duration   // the servers' tickTime, for calls that confirm
	Auth           []Auth          // presented on every connection, in this order, until SetAuth
	SASL           *SASL           // goes before Auth
	ReadOnly       bool            // servers without a quorum will do
	Plain          bool            // without TLS
	Failed         func(Failure)   // called for each attempt that has failed, except refusals
	Ended          <-chan struct{} // closed when the owner ends
	Resume         *Session        // to begin with; if it has ended, each server says so, and no other begins
	Chance         *chance.Source  // of pauses

	// Register is called before a session takes its first call, which waits until done is called.
	Register func(h Handshake, done func())

	// Suspended returns for how long the machine has been suspended since any moment in
	// the past. Nil asks the operating system.
	Suspended func() time.Duration
}

// Conduit owns a go-zookeeper connection and everything that crosses it.
type Conduit struct {
	cfg        Config
	ctx        context.Context // ends when Close begins to cut
	stop       context.CancelFunc
	dialer     dialer
	hosts      hosts
	clock      *clock
	lease      leaseClock
	seen       seen
	versions   versions
	ephemerals ephemerals
	handshake  atomic.Pointer[Handshake] // of the newest connection

	zk       *zk.Conn // set by Start
	zkEvents <-chan zk.Event
	watching sync.WaitGroup // of the clock

	signals sync.Pool // of channels with room for one value, on which calls wait; a pool for all clients would not fit synctest

	mu   sync.Mutex // guards what follows
	conn *conn
	auth []Auth // what connections present; its elements do not change

	authenticating chan struct{} // holds a value while an exchange is under way
	demandsSASL    atomic.Bool   // a server takes no other request before the exchange is complete

	sessionClosed atomic.Bool  // the server has confirmed the end of the session
	refused       atomic.Bool  // a server has refused a credential, for good
	fresh         atomic.Bool  // there is a new lease, and Connected has not been called since
	registered    atomic.Int64 // the session that Register was last called for

	lastFailure atomic.Pointer[error] // of the newest attempt; nil while connected
}

// New returns a conduit that is not started. Until then it has no connection.
func New(cfg Config) *Conduit {
	suspended := cfg.Suspended
	if suspended == nil {
		suspended = systemSuspended()
	}
	c := &Conduit{
		cfg: cfg, clock: newClock(suspended, cfg.Events.Resumed),
		hosts: hosts{ask: cfg.Ensemble, rank: cfg.Rank, chance: cfg.Chance}, auth: cfg.Auth, authenticating: make(chan struct{}, 1),
	}
	c.dialer = dialer{
		dial: cfg.Dial, lookup: cfg.Lookup, timeout: cfg.ConnectTimeout, patience: cfg.SessionTimeout / patienceShare,
		hosts: &c.hosts, lease: &c.lease, clock: c.clock,
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// zkFrame is the size, in bytes, of each of go-zookeeper's two buffers. Its handshake, pings and close
// fit; the default of 1.5 MiB is for requests of znodes, which the conduit sends itself.
const zkFrame = 256

// Start starts go-zookeeper, once. It returns at once; the first connection is made in
// the background.
func (c *Conduit) Start() error {
	conn, ended, err := zk.Connect(c.cfg.Servers, c.cfg.SessionTimeout,
		zk.WithDialer(c.dial), zk.WithHostProvider(&c.hosts),
		zk.WithLogger(zkLogger{c.cfg.Logger}), zk.WithLogInfo(false),
		zk.WithMaxBufferSize(zkFrame), zk.WithMaxConnBufferSize(zkFrame))
	if err != nil {
		return err
	}
	c.zk, c.zkEvents = conn, ended
	c.watching.Go(func() { c.clock.watch(c.ctx) })
	return nil
}

// Do sends the calls, at least one, in one write and waits for their outcomes or the end of the
// context. It returns an error when not all calls have been answered; each
// call's own Result is valid in every case. A call whose context ended before it was
// written will not be written.
func (c *Conduit) Do(ctx context.Context, calls ...*Call) error {
	last := calls[len(calls)-1]
	last.left = len(calls)
	var pooled bool
	if last.done, pooled = c.signals.Get().(chan struct{}); !pooled {
		last.done = make(chan struct{}, 1)
	}
	for _, call := range calls {
		call.last = last
	}
	if ctx.Err() != nil {
		return refuse(calls, notSent(ErrAbandoned)) // certainly not sent, rather than in doubt
	}
	conn, err := c.usable()
	if err == nil {
		err = conn.enqueueOrWrite(calls)
	}
	if err != nil {
		return refuse(calls, err)
	}
	select {
	case <-last.done:
		c.signals.Put(last.done)
	case <-ctx.Done():
		return conn.abandon(calls, ErrAbandoned)
	}
	for _, call := range calls {
		if call.err != nil {
			err = call.err
		}
	}
	return err
}

// Send is Do without waiting: only OnDone receives the outcomes.
func (c *Conduit) Send(calls ...*Call) error {
	conn, err := c.usable()
	if err == nil {
		err = conn.enqueue(calls)
	}
	if err != nil {
		return refuse(calls, err)
	}
	return nil
}

// Deadline returns until when the server is certain to keep the session, and
// whether that time has passed. See leaseClock.
func (c *Conduit) Deadline() (deadline time.Time, over bool) {
	deadline, over = c.lease.check(c.clock.exact())
	return deadline.Add(-c.clock.ahead()), over
}

// QuorumDeadline returns until when the quorum is certain to keep the session, as
// far as calls that confirm have been acknowledged. See Call.Confirms.
func (c *Conduit) QuorumDeadline() time.Time {
	c.clock.exact() // as the machine may have been suspended
	return c.lease.quorumDeadline().Add(-c.clock.ahead())
}

// History returns a number that rises when the servers may have another history. That is so
// when a lease or a session has ended, when a connection begins under another leader, and when
// a server has hung up instead of answering a handshake. It rises before the first reply that
// may be of another history. It is never 0.
func (c *Conduit) History() int64 { return c.seen.history.Load() + 1 }

// Lacks returns a [TooOldError] if the server of the newest connection cannot have a kind of request, by its opcode, nil if
// it may. A server that does not know a request cuts the connection, and may end the session. So some requests wait until the
// server has told its version, for a sixth of the session timeout at most: the version is unknown then.
func (c *Conduit) Lacks(ctx context.Context, op int32) error {
	conn := c.current()
	if conn == nil {
		return notSent(ErrNotConnected)
	}
	return conn.version.lacks(ctx, op)
}

// CheckZooKeeper returns a [TooOldError] if the server of the newest connection may be no ZooKeeper. It
// waits as [Conduit.Lacks] does.
func (c *Conduit) CheckZooKeeper(ctx context.Context) error {
	conn := c.current()
	if conn == nil {
		return notSent(ErrNotConnected)
	}
	return conn.version.checkZooKeeper(ctx)
}

// Lapse cuts the current connection because the lease is over. It does not do so while replies
// keep coming, because the server is then busy with earlier requests, and a new connection
// would start with the same load.
func (c *Conduit) Lapse(why error) {
	if conn := c.current(); conn != nil && !conn.isReplying() {
		conn.fail(why)
	}
}

// Leave cuts the current connection if gone reports that its server, given by name and
// address, has left the ensemble. An attempt to connect to a server that is not among servers
// ends, and its round with it. Unlike the methods of Events, gone may block.
func (c *Conduit) Leave(servers []string, gone func(server string, address net.Addr) bool) {
	c.hosts.giveUp(servers)
	conn := c.current()
	switch {
	case conn == nil, conn.hasEnded(), slices.Contains(servers, conn.to.server):
	case conn.isLive() && !gone(conn.to.server, conn.RemoteAddr()): // a handshake costs less to repeat
	default:
		conn.fail(fmt.Errorf("%s is no server of the ensemble any more", conn.to.server))
	}
}

// closePatience is how long Close waits for the server's answer, beyond the second of go-zookeeper. Without the answer
// the session would hold its ephemeral nodes until it times out, and the disk of a server may be slow for seconds.
const closePatience = 4 * time.Second

// Close ends the session, if a server can be told so, and everything else in any
// case. It takes at most about six seconds and leaves no goroutine. The error
// says that the session was not closed at a server, which will then let it
// expire.
func (c *Conduit) Close() error {
	if c.zk == nil { // never started
		c.stop()
		return nil
	}
	c.hosts.stop()
	if conn := c.current(); conn == nil || !conn.isLive() {
		c.stop() // no server can be told, so do not wait for a connection
	}
	c.zk.Close() // waits a second at most for the server's answer
	if conn := c.current(); conn != nil && conn.isLive() && !c.sessionClosed.Load() {
		select {
		case <-conn.ctx.Done(): // the connection ends with the answer
		case <-time.After(closePatience):
		}
	}
	c.stop()
	c.watching.Wait()
	if conn := c.current(); conn != nil {
		conn.fail(ErrClosed)
	}
	for timeout, goesOn := time.After(time.Second), true; goesOn; {
		select {
		case _, goesOn = <-c.zkEvents: // it is closed when go-zookeeper has stopped
		case <-timeout:
			return errors.New("go-zookeeper has not stopped within a second")
		}
	}
	if !c.sessionClosed.Load() {
		return errors.New("no server has confirmed the end of the session: the servers keep it until it times out")
	}
	return nil
}

// failed notes an attempt to connect that has failed.
func (c *Conduit) failed(f Failure) {
	c.lastFailure.Store(&f.Reason)
	if c.cfg.Failed != nil && c.ctx.Err() == nil {
		f.Servers = len(c.hosts.all())
		c.cfg.Failed(f)
	}
}

// hungUp adds a guess to the reason why a server has hung up before the session began. A server that is
// starting hangs up as well. So in the first round there is no guess, and the attempt is not told as a failure.
func (c *Conduit) hungUp(reason error) {
	if c.hosts.isFirstRound() {
		c.lastFailure.Store(&reason)
		return
	}
	guess := "unencrypted"
	if c.cfg.Plain {
		guess = "encrypted"
	}
	c.failed(Failure{Reason: fmt.Errorf("%w (is it without a quorum, at its limit maxClientCnxns, or a port for %s connections?)", reason, guess)})
}

func isHangUp(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }

// LastFailure returns why the newest attempt to connect has failed, or nil when it has
// succeeded, and before the first.
func (c *Conduit) LastFailure() error {
	if err := c.lastFailure.Load(); err != nil {
		return *err
	}
	return nil
}

// SetAuth presents these credentials of a scheme instead of the ones before, before the next request of the present
// connection, and on later ones.
func (c *Conduit) SetAuth(scheme string, credentials ...secrets.Secret) {
	c.mu.Lock()
	next := slices.DeleteFunc(slices.Clone(c.auth), func(a Auth) bool { return a.Scheme == scheme })
	for _, secret := range credentials {
		next = append(next, Auth{Scheme: scheme, Credential: secret})
	}
	c.auth = next // first: a connection that has presented nothing yet presents these
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		conn.presentAgain()
	}
}

// credentials returns what connections present.
func (c *Conduit) credentials() []Auth {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.auth
}

// Server returns the server of the connection, or "" before the first.
func (c *Conduit) Server() string {
	if conn := c.current(); conn != nil {
		return conn.to.server
	}
	return ""
}

// Cut ends the current connection. The session goes on with another one.
func (c *Conduit) Cut(why error) {
	if conn := c.current(); conn != nil {
		conn.fail(why)
	}
}

// Serves asks a server whether it serves clients, with a quorum. One that must not answer counts as serving.
func (c *Conduit) Serves(ctx context.Context, server string) bool {
	answer, err := c.dialer.ask(ctx, target{server: server}, "srvr")
	return err == nil && answer != "" && !strings.Contains(answer, "not currently serving") && !strings.Contains(answer, "Mode: read-only")
}

func (c *Conduit) current() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// usable returns the connection for calls.
func (c *Conduit) usable() (*conn, error) {
	conn := c.current()
	if c.ctx.Err() != nil {
		return nil, notSent(ErrClosed)
	}
	if conn == nil {
		return nil, notSent(ErrNotConnected)
	}
	return conn, nil
}

// dial is go-zookeeper's dialer. Its own time limit of one second is not used.
func (c *Conduit) dial(network, address string, _ time.Duration) (net.Conn, error) {
	if err := c.hosts.pause(c.ctx); err != nil {
		return nil, ErrClosed
	}
	if c.refused.Load() {
		<-c.ctx.Done() // go-zookeeper would try again forever
		return nil, ErrClosed
	}
	socket, to, by, err := c.dialer.connect(c.ctx, network, address)
	if err != nil {
		err = fmt.Errorf("dial %s: %w", address, err)
		c.dialFailed(to, err)
		return nil, err
	}
	conn := newConn(c, socket, to, by)

	c.mu.Lock()
	previous := c.conn
	// Before the handshake, so that Close finds it.
	c.conn = conn
	c.mu.Unlock()
	if previous != nil {
		previous.fail(errors.New("replaced by a new connection"))
	}
	// Close may have looked for the connection before it was there.
	if c.ctx.Err() != nil {
		conn.fail(ErrClosed)
		return nil, ErrClosed
	}
	return conn, nil
}

// dialFailed notes an attempt that has brought no connection.
func (c *Conduit) dialFailed(to target, err error) {
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		c.failed(Failure{Reason: err, Unfit: c.hosts.haveAllRefused(to)})
	case isHangUp(err):
		c.hungUp(err)
	default:
		c.hosts.forget(to)
		c.failed(Failure{Reason: err})
	}
}

// zkLogger logs go-zookeeper's messages for debugging. Events reports what matters.
type zkLogger struct{ log *slog.Logger }

func (l zkLogger) Printf(format string, args ...any) {
	l.log.Debug("go-zookeeper reports", "message", fmt.Sprintf(format, args...))
}
