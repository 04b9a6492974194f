// SPDX-License-Identifier: Apache-2.0

package gssapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
)

// Mechanism is the SASL mechanism GSSAPI with the credentials of one principal, for
// framework.WithSASL. Several clients may share it.
type Mechanism struct {
	source  source
	conf    string         // the path of krb5.conf
	own     *config.Config // of a client that was given, instead of krb5.conf
	service string
	server  string                                                      // the principal of all servers; "" for one of each host
	lookup  func(ctx context.Context, address string) ([]string, error) // nil for the name in the connection string

	mu      sync.Mutex
	tickets map[string]*ticket // by server's principal
}

var _ framework.SASLMechanism = (*Mechanism)(nil)

// Option is a setting of a [Mechanism].
type Option interface{ apply(*Mechanism) error }

type optionFunc func(*Mechanism) error

func (f optionFunc) apply(m *Mechanism) error { return f(m) }

// option returns an option that is refused with the text unless its argument is valid.
func option(valid bool, set func(*Mechanism), refusal string, args ...any) Option {
	return optionFunc(options.Checked(valid, set, refusal, args...))
}

// WithConfig sets the path of krb5.conf. Default: the environment variable KRB5_CONFIG, or
// /etc/krb5.conf.
func WithConfig(path string) Option {
	return option(path != "", func(m *Mechanism) { m.conf = path }, "an empty path of krb5.conf, expected a file")
}

// WithServiceName sets the first part of the servers' principals. Default: zookeeper.
func WithServiceName(name string) Option {
	return option(name != "" && !strings.ContainsAny(name, "/@"), func(m *Mechanism) { m.service = name },
		"service name %q, expected one such as zookeeper", name)
}

// WithCanonicalHost takes the host of a server's principal from the name service, by the address of the
// connection, instead of the connection string. An attacker who controls the name service can then
// choose which server is authenticated.
func WithCanonicalHost() Option {
	return option(true, func(m *Mechanism) { m.lookup = net.DefaultResolver.LookupAddr }, "")
}

// WithServerPrincipal sets the principal of all servers, such as zookeeper/zk.example.com. What
// follows an @ is its realm. [WithServiceName] and [WithCanonicalHost] set parts of one principal for each server.
func WithServerPrincipal(principal string) Option {
	err := checkPrincipal(principal)
	return option(err == nil, func(m *Mechanism) { m.server = principal }, "%w", err)
}

// Keytab returns a mechanism that logs in as the principal, such as "reports@EXAMPLE.COM", with its key in
// a file. Without a realm it is in the default realm of krb5.conf. Keytab reads krb5.conf, but
// the keytab only when a connection needs it.
func Keytab(path, principal string, opts ...Option) (*Mechanism, error) {
	if path == "" {
		return nil, errors.New("gssapi: an empty path of a keytab, expected a file")
	}
	return newMechanism(&keytabSource{path, principal}, principal, opts)
}

// Password returns a mechanism that logs in as the principal with a password from a function. It is called
// for each new ticket. Its errors must contain no secrets.
func Password(principal string, password func(context.Context) (string, error), opts ...Option) (*Mechanism, error) {
	if password == nil {
		return nil, errors.New("gssapi: a nil function, expected one that returns the password")
	}
	return newMechanism(&passwordSource{principal, password}, principal, opts)
}

// CredentialCache returns a mechanism that uses the tickets in a file. The empty path stands for the
// environment variable KRB5CCNAME, default_ccache_name in krb5.conf, or /tmp/krb5cc_<uid>. The connections are
// those of the principal that the file is of when they begin.
func CredentialCache(path string, opts ...Option) (*Mechanism, error) {
	source := &cacheSource{}
	m, err := newMechanism(source, "", opts)
	if err != nil {
		return nil, err
	}
	p, err := readProfile(m.conf)
	if err == nil {
		source.path, err = cachePath(path, p)
	}
	if err != nil {
		return nil, fmt.Errorf("gssapi: %w", err)
	}
	return m, nil
}

// Client returns a mechanism that uses the tickets of a client of gokrb5, which must be logged in. The
// client's configuration takes the place of krb5.conf. The caller keeps the client, and destroys it after the
// clients of ZooKeeper are closed.
func Client(c *client.Client, opts ...Option) (*Mechanism, error) {
	if c == nil || c.Credentials == nil || c.Config == nil {
		return nil, errors.New("gssapi: a client without credentials or configuration, expected one such as client.NewWithKeytab returns")
	}
	return newMechanism(&clientSource{c}, "", append(slices.Clip(opts), optionFunc(func(m *Mechanism) error {
		if m.conf != "" {
			return errors.New("WithConfig with a client of gokrb5, which has a configuration of its own")
		}
		m.own = c.Config
		return nil
	})))
}

// newMechanism returns a mechanism. The principal is "" if the source has one.
func newMechanism(source source, principal string, opts []Option) (*Mechanism, error) {
	m := &Mechanism{source: source, service: "zookeeper", tickets: make(map[string]*ticket)}
	switch source.(type) {
	case *keytabSource, *passwordSource:
		if err := checkPrincipal(principal); err != nil {
			return nil, fmt.Errorf("gssapi: %w", err)
		}
	}
	if err := options.Apply(opts, func(o Option) error { return o.apply(m) }); err != nil {
		return nil, fmt.Errorf("gssapi: %w", err)
	}
	m.conf = cmp.Or(m.conf, os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf")
	if _, err := m.loadConfig(); err != nil {
		return nil, fmt.Errorf("gssapi: %w", err)
	}
	return m, nil
}

func checkPrincipal(principal string) error {
	name, realm, found := strings.Cut(principal, "@")
	if name == "" || found && (realm == "" || strings.Contains(realm, "@")) {
		return fmt.Errorf("principal %q, expected one such as reports@EXAMPLE.COM", principal)
	}
	return nil
}

// loadConfig reads krb5.conf.
func (m *Mechanism) loadConfig() (*config.Config, error) {
	if m.own != nil {
		return m.own, nil
	}
	p, err := readProfile(m.conf)
	if err != nil {
		return nil, err
	}
	return p.config()
}

// Name is the mechanism's registered name.
func (m *Mechanism) Name() string { return "GSSAPI" }

// Renews returns true: a file or a function may have other credentials later.
func (m *Mechanism) Renews() bool { return true }

// Format writes the name for every verb, since there are keys in the mechanism.
func (m *Mechanism) Format(s fmt.State, _ rune) {
	// Format has no way to return an error; fmt reports a failed write itself.
	_, _ = io.WriteString(s, m.Name())
}

// Start finds a ticket for the server, and begins an exchange with it. It returns when the context ends,
// and leaves a request to a KDC that has begun to its own timeouts.
func (m *Mechanism) Start(ctx context.Context, server framework.SASLServer) (framework.SASLExchange, error) {
	principal, err := m.principalOf(ctx, server)
	if err != nil {
		return nil, err
	}
	type found struct {
		ticket *ticket
		kept   bool
		err    error
	}
	got := make(chan found, 1)
	go func() {
		f := found{err: refused(errors.New("runtime.Goexit was called"))} // unless it returns
		defer func() {
			if recovered := recover(); recovered != nil { // it may have secrets in it
				f.err = refused(fmt.Errorf("a panic of type %T", recovered))
			}
			got <- f
		}()
		f.ticket, f.kept, f.err = m.ticketFor(ctx, principal)
	}()
	select {
	case f := <-got:
		if f.err != nil {
			err := fmt.Errorf("a ticket for %s: %w", principal, f.err)
			if errors.Is(f.err, errUnknownServer) {
				return &exchange{failed: err}, nil // a refusal by this server only
			}
			return nil, err
		}
		e := &exchange{ticket: f.ticket, accept: func() { m.accept(principal, f.ticket) }}
		if f.kept {
			return &keptExchange{e, func() { m.drop(principal, f.ticket) }}, nil
		}
		return e, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("a ticket for %s: %w", principal, context.Cause(ctx))
	}
}

// principalOf returns the principal of a server.
func (m *Mechanism) principalOf(ctx context.Context, server framework.SASLServer) (string, error) {
	if m.server != "" {
		return m.server, nil
	}
	host := server.Host
	if m.lookup != nil && server.Address != nil {
		address, _, err := net.SplitHostPort(server.Address.String())
		if err != nil {
			return "", fmt.Errorf("the address of %s: %w", host, err)
		}
		names, err := m.lookup(ctx, address)
		if err != nil || len(names) == 0 {
			return "", fmt.Errorf("the canonical name of %s: %w", address, cmp.Or(err, errors.New("it has none")))
		}
		host = strings.TrimSuffix(names[0], ".")
	}
	return m.service + "/" + strings.ToLower(host), nil
}

// ticketFor returns a ticket for a server's principal: the one kept, if the credentials are the same and
// half of its lifetime is left, or else another one.
func (m *Mechanism) ticketFor(ctx context.Context, principal string) (t *ticket, kept bool, err error) {
	m.mu.Lock()
	known := m.tickets[principal]
	m.mu.Unlock()
	of, err := m.source.read()
	if err != nil {
		return nil, false, err
	}
	now := time.Now()
	if known != nil && known.of == of && now.Before(known.renewAt()) {
		return known, true, nil
	}
	conf, err := m.loadConfig()
	if err != nil {
		return nil, false, refused(err)
	}
	fresh, err := fetch(ctx, m.source, conf, of, principal)
	if err == nil {
		fresh.of = of
		return fresh, false, nil
	}
	if known != nil && known.of.client == of.client && now.Before(known.end) && !errors.Is(err, framework.ErrAuthFailed) {
		return known, true, nil // it is good yet, and no KDC can be reached
	}
	return nil, false, err
}

// accept keeps a ticket that its server has accepted.
func (m *Mechanism) accept(principal string, t *ticket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tickets[principal] = t
}

// drop forgets a ticket that its server has refused.
func (m *Mechanism) drop(principal string, t *ticket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tickets[principal] == t {
		delete(m.tickets, principal)
	}
}
