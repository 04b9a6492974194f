package conduit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/wire"
)

// minAttempt is the shortest time limit of an attempt to connect, even when the session
// is about to end.
const minAttempt = 50 * time.Millisecond

// attemptShare is the part of the granted session timeout that one attempt takes at
// most.
const attemptShare = 3

// minAddressAttempt is the time that each of several addresses of a name gets.
const minAddressAttempt = 2 * time.Second

// Handshake is a server's answer when it accepts the session.
type Handshake struct {
	SessionID int64
	Password  []byte
	Timeout   time.Duration // negotiated
	Server    string
	ReadOnly  bool // the server takes no writes, and no other knows the session

	// Fresh means that nothing held before can be relied on: the session is new, or
	// its lease had ended.
	Fresh bool
}

// Notification is a watch event.
type Notification struct {
	Type zk.EventType
	Path string
}

// Events receives what happens to the connection; see the package comment for the order.
// The methods must not block, and must not call Close or Reset.
type Events interface {
	// Connected is called when a server has accepted the session.
	Connected(Handshake)

	// Revived is called when the lease of the session had ended and a reply on the same
	// connection, which never ended, has opened another lease: the server still knows
	// the session. The handshake is the connection's own, with Fresh set.
	Revived(Handshake)

	// Disconnected is called when a connection with a session has ended, with the reason.
	Disconnected(error)

	// Expired is called when a server no longer knows the session.
	Expired()

	// Notified is called with a watch event.
	Notified(Notification)

	// Resumed is called when the machine was suspended, so a deadline may have passed
	// before its timer noticed. Unlike the others it may be called at any time.
	Resumed()

	// AuthFailed is called when a server has refused a credential. The connection ends,
	// and the conduit makes no other.
	AuthFailed(error)
}

// Config has the settings of a Conduit. Every field is required except Ensemble, Lookup,
// Tick, Auth, ReadOnly and Suspended.
type Config struct {
	Servers        []string
	Ensemble       func() []string // the servers from now on, at least one; asked before each round of attempts
	SessionTimeout time.Duration
	ConnectTimeout time.Duration // bounds one attempt: TCP, TLS and handshake
	MaxReply       int           // bytes
	Dial           func(ctx context.Context, network, address string) (net.Conn, error)
	Lookup         func(ctx context.Context, host string) ([]string, error) // nil if the dialer does it; see Address
	Events         Events
	Logger         *slog.Logger
	Tick           time.Duration // the servers' tickTime, for calls that confirm
	Auth           []Auth        // presented on every connection, in this order
	ReadOnly       bool          // servers without a quorum will do

	// Suspended returns for how long the machine has been suspended since any moment in
	// the past. Nil asks the operating system.
	Suspended func() time.Duration
}

// Conduit owns a go-zookeeper connection and everything that crosses it.
type Conduit struct {
	cfg   Config
	ctx   context.Context // ends when Close begins to cut
	stop  context.CancelFunc
	hosts hosts
	clock *clock
	lease leaseClock
	zxid  atomic.Int64 // newest transaction any reply has named

	// unproved is set while an event has come whose transaction is unknown, and no reply
	// has followed it. See catchUp.
	unproved  atomic.Bool
	handshake atomic.Pointer[Handshake] // of the newest connection

	zk       *zk.Conn // set by Start
	zkEvents <-chan zk.Event

	mu     sync.Mutex // guards conn and tooOld
	conn   *conn
	tooOld map[string]bool // servers that have refused a request of ZooKeeper 3.6

	sessionClosed atomic.Bool // the server has confirmed the end of the session
	refused       atomic.Bool // a server has refused a credential
	readOnly      atomic.Bool // the newest session was opened by a read-only server

	lastFailure atomic.Pointer[error] // of the newest attempt; nil while connected
}

// New returns a conduit that is not started. Until then it has no connection.
func New(cfg Config) *Conduit {
	suspended := cfg.Suspended
	if suspended == nil {
		suspended = systemSuspended()
	}
	c := &Conduit{
		cfg: cfg, clock: newClock(suspended),
		hosts:  hosts{ask: cfg.Ensemble},
		tooOld: make(map[string]bool),
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Start starts go-zookeeper, once. It returns at once; the first connection is made in
// the background.
func (c *Conduit) Start() error {
	conn, ended, err := zk.Connect(c.cfg.Servers, c.cfg.SessionTimeout,
		zk.WithDialer(c.dial), zk.WithHostProvider(&c.hosts),
		zk.WithLogger(zkLogger{c.cfg.Logger}), zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	c.zk, c.zkEvents = conn, ended
	return nil
}

// Do sends the calls, at least one, in one write and waits for their outcomes or the end of the
// context. It returns an error when not all calls have been answered; each
// call's own Result is valid in every case. A call whose context ended before it was
// written will not be written.
func (c *Conduit) Do(ctx context.Context, calls ...*Call) error {
	last := calls[len(calls)-1] // settled after all others
	last.done = make(chan struct{})
	if ctx.Err() != nil {
		return refuse(calls, notSent(ErrAbandoned)) // certainly not sent, rather than in doubt
	}
	conn, err := c.enqueue(calls)
	if err != nil {
		return refuse(calls, err)
	}
	select {
	case <-last.done:
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
	if _, err := c.enqueue(calls); err != nil {
		return refuse(calls, err)
	}
	return nil
}

// Deadline returns until when the server is certain to keep the session, and
// whether that time has passed. See leaseClock.
func (c *Conduit) Deadline() (deadline time.Time, over bool) {
	deadline, over = c.lease.check(c.exactNow())
	return deadline.Add(-c.clock.ahead()), over
}

// Lapse cuts the current connection because the lease is over, unless replies keep
// coming: then the server is busy with earlier requests, and a new connection would only
// start with the same load.
func (c *Conduit) Lapse(why error) {
	if conn := c.current(); conn != nil && !conn.isReplying() {
		conn.fail(why)
	}
}

// Reset cuts the current connection; go-zookeeper makes the next one.
func (c *Conduit) Reset(why error) {
	if conn := c.current(); conn != nil {
		conn.fail(why)
	}
}

// Leave cuts the current connection if gone reports that its server, given by name and
// address, has left the ensemble. Unlike the methods of Events, gone may block.
func (c *Conduit) Leave(gone func(server string, address net.Addr) bool) {
	conn := c.current()
	if conn != nil && conn.isOpen() && gone(conn.server, conn.RemoteAddr()) {
		conn.fail(fmt.Errorf("%s is no server of the ensemble any more", conn.server))
	}
}

// Close ends the session, if a server can be told so, and everything else in any
// case. It takes at most about two seconds and leaves no goroutine. The error
// says that the session was not closed at a server, which will then let it
// expire.
func (c *Conduit) Close() error {
	if c.zk == nil { // never started
		c.stop()
		return nil
	}
	c.hosts.stop()
	if !c.isConnected() {
		c.stop() // no server can be told, so do not wait for a connection
	}
	c.zk.Close() // waits a second at most for the server's answer
	c.stop()
	c.Reset(ErrClosed)
	timeout := time.NewTimer(time.Second)
	defer timeout.Stop()
	for {
		select {
		case _, ok := <-c.zkEvents:
			if ok {
				continue
			}
			if !c.sessionClosed.Load() {
				return errors.New("no server has confirmed the end of the session: it ends there when it times out")
			}
			return nil
		case <-timeout.C:
			return errors.New("go-zookeeper has not stopped within a second")
		}
	}
}

// LastFailure returns why the newest attempt to connect has failed, or nil when it has
// succeeded, and before the first.
func (c *Conduit) LastFailure() error {
	if err := c.lastFailure.Load(); err != nil {
		return *err
	}
	return nil
}

func (c *Conduit) current() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

func (c *Conduit) isConnected() bool {
	conn := c.current()
	return conn != nil && conn.isOpen()
}

func (c *Conduit) enqueue(calls []*Call) (*conn, error) {
	conn := c.current()
	if c.ctx.Err() != nil {
		return nil, notSent(ErrClosed)
	}
	if conn == nil {
		return nil, notSent(ErrNotConnected)
	}
	return conn, conn.enqueue(calls)
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
	began := time.Now()
	ctx, cancel := context.WithTimeout(c.ctx, c.attemptLimit())
	defer cancel()
	socket, by, err := c.connect(ctx, began, network, address)
	if err != nil {
		err = fmt.Errorf("dial %s: %w", address, err)
		c.lastFailure.Store(&err)
		return nil, err
	}
	conn := newConn(c, socket, address, by)

	c.mu.Lock()
	previous := c.conn
	// Before the handshake, so that Close and Reset find it.
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

// connect looks the server up, unless the dialer does, and connects to one of its
// addresses. It returns the time by which the handshake must be done.
func (c *Conduit) connect(ctx context.Context, began time.Time, network, server string) (socket net.Conn, by time.Time, err error) {
	to := c.hosts.current()
	if to.server == server && to.address == "" && c.cfg.Lookup != nil {
		if to, err = c.lookUp(ctx, server); err != nil {
			return nil, by, err
		}
	}
	// Again, since there may be more addresses to share the time now.
	by = began.Add(c.attemptLimit())
	ctx, cancel := context.WithDeadline(context.WithValue(ctx, addressKey{}, to.address), by)
	defer cancel()
	socket, err = c.cfg.Dial(ctx, network, server)
	return socket, by, err
}

func (c *Conduit) lookUp(ctx context.Context, server string) (target, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return target{}, err
	}
	found, err := c.cfg.Lookup(ctx, host)
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
	return c.hosts.found(addresses), nil
}

type addressKey struct{}

// Address returns the address of the server that a dialer must connect to, or "" if the
// dialer decides. The dialer gets the server's name as well, because TLS needs it.
func Address(ctx context.Context) string {
	address, _ := ctx.Value(addressKey{}).(string)
	return address
}

// attemptLimit bounds one attempt to connect: TCP, TLS and the handshake. While there
// is a session to save, the untried servers of this round share the time left of it, so
// that a paused server cannot use it up while others are healthy.
func (c *Conduit) attemptLimit() time.Duration {
	left, granted := c.lease.left(c.now())
	if left == 0 {
		// There is nothing to lose by waiting, but one of several addresses may be dead.
		limit := c.cfg.ConnectTimeout
		return max(limit/time.Duration(c.hosts.addresses()), min(limit, minAddressAttempt))
	}
	share := left / time.Duration(c.hosts.untried())
	// The only address there is may stand for several servers.
	share = min(share, granted/attemptShare)
	return min(c.cfg.ConnectTimeout, max(share, minAttempt))
}

// sawEvent records the transaction of a watch event. Servers name it since ZooKeeper 3.9.
func (c *Conduit) sawEvent(zxid int64) {
	if zxid > 0 {
		c.sawZxid(zxid)
		return
	}
	c.unproved.Store(true)
}

// catchUp returns the first request of a connection whose predecessor ended between an
// event and the next reply. Servers before ZooKeeper 3.9 do not name the transaction of an
// event, so the connect request could not name it either, and this server may be behind.
//
// The request is a transaction that changes nothing. Unlike a sync it is committed by a
// majority, so it comes after the transaction of the event, and the server answers what
// follows only once it has applied both. Whether it succeeds does not matter.
func catchUp() *Call {
	e := wire.NewEncoder(64)
	e.MultiOp(wire.OpCheck)
	e.String("/")
	e.Int32(-1) // any version
	e.MultiEnd()
	return &Call{Op: wire.OpMulti, Body: e.Bytes(), catchesUp: true}
}

// forgetZxid is called when earlier reads no longer count.
func (c *Conduit) forgetZxid() {
	c.zxid.Store(0)
	c.unproved.Store(false)
}

func (c *Conduit) sawZxid(zxid int64) {
	for {
		seen := c.zxid.Load()
		if zxid <= seen || c.zxid.CompareAndSwap(seen, zxid) {
			return
		}
	}
}

// refuse settles calls that were not accepted.
func refuse(calls []*Call, err error) error {
	for _, call := range calls {
		call.settled, call.err = true, err
		if call.OnDone != nil {
			call.OnDone(Reply{}, err)
		}
	}
	return err
}

func notSent(reason error) error { return fmt.Errorf("%w: %w", ErrNotSent, reason) }

// zkLogger logs go-zookeeper's messages for debugging. Events reports what matters.
type zkLogger struct{ log *slog.Logger }

func (l zkLogger) Printf(format string, args ...any) {
	l.log.Debug("go-zookeeper reports", "message", fmt.Sprintf(format, args...))
}
