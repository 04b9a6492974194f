// SPDX-License-Identifier: Apache-2.0

package zkproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Option changes how [Start] sets up a proxy. An option with a bad value makes Start fail.
type Option interface {
	apply(*Proxy) error
}

type optionFunc func(*Proxy) error

func (f optionFunc) apply(p *Proxy) error { return f(p) }

// plain returns an option that cannot be refused.
func plain(set func(*Proxy)) Option { return option(true, set, "") }

// option returns an option that is refused with the text unless its argument is valid.
func option(valid bool, set func(*Proxy), refusal string, args ...any) Option {
	return optionFunc(func(p *Proxy) error {
		if !valid {
			return fmt.Errorf("zkproxy: "+refusal, args...)
		}
		set(p)
		return nil
	})
}

// WithMaxFrame sets the length in bytes, header included, above which a frame is garbage. It is 4 MiB by default, four times what a
// server accepts, since replies may be longer.
func WithMaxFrame(bytes int) Option {
	return option(bytes >= replyHeader, func(p *Proxy) { p.maxFrame = bytes },
		"longest frame is %d bytes, expected at least %d", bytes, replyHeader)
}

// WithDialTimeout sets how long the proxy tries to connect to the target before it resets the client's connection, 5 s by default.
func WithDialTimeout(d time.Duration) Option {
	return option(d > 0, func(p *Proxy) { p.dialTimeout = d }, "dial timeout is %v, expected more than 0", d)
}

// Proxy forwards connections to a ZooKeeper server and does them harm. Its methods may be called from any goroutine.
type Proxy struct {
	listens     bool
	listener    net.Listener // nil without one
	maxFrame    int
	dialTarget  func(ctx context.Context, network, address string) (net.Conn, error)
	dialTimeout time.Duration
	close       func() error
	closed      chan struct{}  // closed by Close, with mu held
	running     sync.WaitGroup // all goroutines of the proxy

	mu           sync.Mutex // guards all that follows, in links too; never held during I/O or in an interceptor
	target       string
	refusing     bool
	blackhole    Direction     // the directions that are swallowed
	healed       chan struct{} // closed and replaced by Heal
	cutOff       bool          // pings are answered instead of the server
	paused       chan struct{} // closed by the end of a pause; nil while there is none
	toCut        int           // how many connections to come are cut after their handshake
	delay        time.Duration
	rate         int // bytes per second, 0 for no limit
	interceptors []*interceptor
	links        map[*link]struct{} // those that are not over
	accepted     int
	requests     int
	journal      journal
}

type interceptor struct {
	judge func(Frame) Verdict
}

// Start starts a proxy in front of the server at target, a host:port, which need not be up yet. It listens on a free port of 127.0.0.1,
// unless told not to, and is in use until [Proxy.Close].
func Start(target string, opts ...Option) (*Proxy, error) {
	_, port, err := net.SplitHostPort(target)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return nil, fmt.Errorf("zkproxy: target is %q, expected host:port: %w", target, err)
	}
	p := &Proxy{
		listens:     true,
		maxFrame:    4 << 20,
		dialTarget:  new(net.Dialer).DialContext,
		dialTimeout: 5 * time.Second,
		target:      target,
		closed:      make(chan struct{}),
		healed:      make(chan struct{}),
		links:       map[*link]struct{}{},
		journal:     newJournal(),
	}
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("zkproxy: a nil option was given")
		}
		if err := opt.apply(p); err != nil {
			return nil, err
		}
	}
	p.close = sync.OnceValue(p.shutDown)
	if !p.listens {
		return p, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("zkproxy: %w", err)
	}
	p.listener = listener
	p.running.Go(p.acceptAll)
	return p, nil
}

// Addr returns the host:port on which clients connect. It is empty for a proxy without a listener.
func (p *Proxy) Addr() string {
	if p.listener == nil {
		return ""
	}
	return p.listener.Addr().String()
}

// Close stops listening, resets all connections, and returns when interceptors and goroutines have ended. Only the first call does
// something; all return its result. The log remains.
func (p *Proxy) Close() error { return p.close() }

func (p *Proxy) shutDown() error {
	var err error
	if p.listener != nil {
		err = p.listener.Close()
	}
	p.mu.Lock()
	close(p.closed)
	p.mu.Unlock()
	p.resetAll("closed", func(*link) bool { return true })
	p.running.Wait()
	if err != nil {
		return fmt.Errorf("zkproxy: %w", err)
	}
	return nil
}

// SetTarget sets the host:port to which connections to come are forwarded. Those that exist stay where they are.
func (p *Proxy) SetTarget(addr string) {
	p.commandf(func() { p.target = addr }, "SetTarget %s", addr)
}

// Requests returns the number of requests taken up so far: the highest [Frame.Index]. Handshakes and pings do not count.
func (p *Proxy) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// acceptAll takes connections until the listener is closed.
func (p *Proxy) acceptAll() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // short of descriptors, say; until then the client waits in the backlog
			select {
			case <-p.closed:
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		p.admit(conn)
	}
}

// isClosed reports whether Close has been called. The answer holds for as long as mu is held.
func (p *Proxy) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// admit makes a link of a new connection and starts it, unless the connection must be refused.
func (p *Proxy) admit(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	frame := Frame{Conn: p.accepted}
	if p.isClosed() || p.refusing {
		p.journal.add(Refused, frame, "")
		resetConn(client)
		return false
	}
	p.journal.add(Accepted, frame, "")
	l := &link{
		proxy: p, number: p.accepted, client: client, open: Both, calls: map[callKey][]call{}, writing: make(chan struct{}, 1),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	p.links[l] = struct{}{}
	p.running.Go(l.run)
	return true
}

// resetAll resets the connections that match accepts, which is called with mu held.
func (p *Proxy) resetAll(why string, match func(*link) bool) {
	p.mu.Lock()
	links := slices.DeleteFunc(slices.Collect(maps.Keys(p.links)), func(l *link) bool { return !match(l) })
	p.mu.Unlock()
	slices.SortFunc(links, func(a, b *link) int { return a.number - b.number })
	for _, l := range links {
		l.reset(why)
	}
}

func (p *Proxy) record(a Action, f Frame, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.journal.add(a, f, detail)
}

// judge asks the interceptors, in the order in which they came, until one wants something else than to pass the frame.
func (p *Proxy) judge(f Frame) Verdict {
	p.mu.Lock()
	interceptors := slices.Clone(p.interceptors)
	p.mu.Unlock()
	for _, i := range interceptors {
		if v := i.judge(f); v != nil && v != Pass {
			return v
		}
	}
	return Pass
}
