// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gocurator/curator/cmd/curatorctl/internal/doctor"
	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/secrets"
)

// settings are the flags that every verb has.
type settings struct {
	servers                   string
	tls                       *bool // what the flag says, if it is given
	environmentTLS            string
	ca, cert, key, serverName string
	auth                      secrets.Secret
	sasl                      saslSettings
	timeout, session          time.Duration
	output                    string
	verbose                   bool
}

// fromEnvironment returns the settings that hold without flags.
func fromEnvironment(getenv func(string) string) settings {
	own := func(name string) string { return getenv("CURATOR_" + name) }
	return settings{
		servers: cmp.Or(own("SERVERS"), "127.0.0.1:2181"), environmentTLS: own("TLS"), ca: own("CA"), cert: own("CERT"), key: own("KEY"),
		serverName: own("SERVER_NAME"), auth: secrets.Hide(own("AUTH")),
		sasl:    saslSettings{secrets.Hide(own("SASL")), own("SASL_FILE"), own("SASL_KEYTAB"), own("SASL_PRINCIPAL"), own("SASL_CACHE"), own("SASL_SERVER")},
		timeout: 15 * time.Second, session: 20 * time.Second, output: "table",
	}
}

// environment returns the variables that fromEnvironment reads, for another process.
func environment(getenv func(string) string) []string {
	var pairs []string
	fromEnvironment(func(name string) string {
		value := getenv(name)
		if value != "" {
			pairs = append(pairs, name+"="+value)
		}
		return value
	})
	return pairs
}

func (s *settings) setTLS(text string) error {
	on, err := parseBool(text)
	s.tls = &on
	return err
}

func parseBool(text string) (bool, error) {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, errors.New("expected 1 or 0, or true or false")
	}
	return on, nil
}

// isEncrypted reports whether to connect with TLS. A setting that only TLS has turns it on.
func (s *settings) isEncrypted() (bool, error) {
	needed := s.ca != "" || s.cert != "" || s.key != "" || s.serverName != ""
	switch {
	case s.tls != nil:
		return *s.tls, nil
	case s.environmentTLS == "":
		return needed, nil
	}
	on, err := parseBool(s.environmentTLS)
	switch {
	case err != nil:
		return false, fmt.Errorf("CURATOR_TLS=%s: %w", s.environmentTLS, err)
	case needed && !on: // a credential must not go out in the clear by mistake
		return false, fmt.Errorf("CURATOR_TLS=%s together with a certificate, a key or a server name: expected -tls or -tls=false", s.environmentTLS)
	default:
		return on, nil
	}
}

// register adds the flags, whose defaults are the present settings.
func (s *settings) register(fs *flag.FlagSet) {
	fs.StringVar(&s.servers, "servers", s.servers, "`servers` of ZooKeeper, host:port,..., and then the chroot if there is one")
	fs.BoolFunc("tls", "connect with TLS; default: if -ca, -cert, -key or -server-name is given", s.setTLS)
	fs.Var((*text)(&s.ca), "ca", "`file` with the certificates that sign the servers' certificates")
	fs.Var((*text)(&s.cert), "cert", "`file` with the certificate of this client")
	fs.Var((*text)(&s.key), "key", "`file` with the key of this client")
	fs.Var((*text)(&s.serverName), "server-name", "`name` in the certificates of the servers")
	s.sasl.register(fs)
	fs.Var((*duration)(&s.timeout), "timeout", "`time` for connecting, and for all of a verb that makes only a few requests")
	fs.Var((*duration)(&s.session), "session-timeout", "`time` to ask for as the session timeout")
	fs.StringVar(&s.output, "o", s.output, "`format`: table, wide or json")
	fs.BoolVar(&s.verbose, "v", s.verbose, "log what the client does")
}

// newClient returns a client that is not connected.
func (c *call) newClient() (*framework.Framework, error) {
	opts, err := c.clientOptions()
	if err != nil {
		return nil, err
	}
	return framework.New(c.servers, opts...)
}

// connect returns a client that is connected.
func (c *call) connect(ctx context.Context) (*framework.Framework, error) {
	opts, err := c.clientOptions()
	if err != nil {
		return nil, err
	}
	return framework.Connect(ctx, c.servers, opts...)
}

// connectOrSay is connect, which ends as soon as the servers say that they have no quorum. They are asked twice, as they elect a leader
// in less time than that.
func (c *call) connectOrSay(ctx context.Context) (*framework.Framework, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		apart, err := c.newClient()
		if err != nil {
			return // connect says it
		}
		defer func() { _ = apart.Close() }() // it has never been connected
		for range 2 {
			select {
			case <-time.After(quorumAfter):
			case <-ctx.Done():
				return
			}
			if err = c.lacksQuorum(ctx, apart); err == nil {
				return
			}
		}
		end(err)
	}()
	client, err := c.connect(ctx)
	var lost *exit
	if errors.As(context.Cause(ctx), &lost) && err != nil {
		err = lost
	}
	end(nil)
	<-asked
	return client, err
}

// quorumAfter is when the servers are asked for the first time, and then again.
const quorumAfter = 700 * time.Millisecond

// lacksQuorum returns an error if all servers have said that they have no quorum, or do not run.
func (c *call) lacksQuorum(ctx context.Context, client *framework.Framework) error {
	ctx, cancel := context.WithTimeout(ctx, quorumAfter/2)
	defer cancel()
	var said []string
	runs := false
	for _, address := range client.Servers() {
		text, err := inspect.FourLetterWord(ctx, client, address, "srvr")
		mode := doctor.Fields(text, ": ")["Mode"]
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			said = append(said, address+": connection refused")
		case err == nil && !doctor.Serves(mode):
			said, runs = append(said, address+": "+oneLine(strings.TrimSpace(cmp.Or(mode, text)))), true
		default:
			return nil
		}
	}
	if !runs { // they may be about to start
		return nil
	}
	return &exit{status: exitUnavailable, err: fmt.Errorf("no server has a quorum: %s", strings.Join(said, "; "))}
}

// clientOptions returns what the settings say, after a check.
func (c *call) clientOptions() ([]framework.Option, error) {
	opts := []framework.Option{
		framework.WithSessionTimeout(c.session), framework.WithConnectionTimeout(c.timeout), framework.WithLogger(c.logger()),
	}
	cfg, err := c.tlsConfig()
	if err != nil {
		return nil, usage("%w", err)
	}
	if cfg != nil {
		opts = append(opts, framework.WithTLS(cfg))
	}
	if auth := c.auth.Text(); auth != "" {
		scheme, credential, found := strings.Cut(auth, ":")
		if !found {
			return nil, usage("CURATOR_AUTH: expected scheme:credential, such as digest:user:password")
		}
		opts = append(opts, framework.WithAuth(scheme, []byte(credential)))
	}
	mechanism, err := c.sasl.mechanism()
	if err != nil {
		return nil, usage("%w", err)
	}
	if mechanism != nil {
		opts = append(opts, framework.WithSASL(mechanism))
	}
	opts = append(opts, c.options...)
	if _, err := framework.New(c.servers, opts...); err != nil { // what it refuses is wrong on the command line
		return nil, usage("%w", err)
	}
	return opts, nil
}

func (c *call) logger() *slog.Logger {
	if !c.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// tlsConfig returns nil to connect without TLS.
func (c *call) tlsConfig() (*tls.Config, error) {
	if encrypted, err := c.isEncrypted(); err != nil || !encrypted {
		return nil, err
	}
	cfg := &tls.Config{ServerName: c.serverName, MinVersion: tls.VersionTLS12}
	if c.ca != "" {
		pem, err := os.ReadFile(c.ca)
		if err != nil {
			return nil, fmt.Errorf("-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("-ca %s: no certificate in it", c.ca)
		}
	}
	if (c.cert == "") != (c.key == "") {
		return nil, errors.New("-cert and -key: one of them, expected both or neither")
	}
	if c.cert != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, fmt.Errorf("-cert and -key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
