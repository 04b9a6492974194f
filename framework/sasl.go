package framework

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"runtime"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// SASLMechanism authenticates the connections of a client by SASL (RFC 4422), see [WithSASL].
// [DigestMD5] is one. Other modules may implement more. It must be safe for concurrent use.
type SASLMechanism interface {
	// Name is the mechanism's name, such as "DIGEST-MD5". It stands in errors.
	Name() string

	// Renews reports whether a later exchange may use other credentials than this one,
	// because a function or a file is asked for them each time. A refusal then does not end
	// the client.
	Renews() bool

	// Start begins the exchange of one connection. It may block until the context ends, for
	// instance to get a ticket; the session may end if it takes long. An error that matches
	// [ErrAuthFailed] is a refusal, as by a server. Other errors cost the connection only.
	Start(ctx context.Context, server SASLServer) (SASLExchange, error)
}

// SASLServer is the server of one connection.
type SASLServer struct {
	Host    string   // as it stands in the connection string, without the port
	Address net.Addr // to which the client is connected
}

// SASLExchange is what a mechanism does on one connection. Its methods are called one at a time.
type SASLExchange interface {
	// Next returns the answer to a challenge. The first challenge is nil, and its answer is
	// the first token, which may be empty. An empty answer to a later challenge is not sent if
	// the mechanism is done. Errors count as errors of [SASLMechanism].Start, and must contain
	// no secrets.
	Next(ctx context.Context, challenge []byte) (answer []byte, err error)

	// Done reports, after Next, whether the mechanism expects no further challenge.
	Done() bool
}

// WithSASL authenticates every connection by SASL, before any other request of the client leaves.
// The client counts as connected only when the exchange is complete. Only one mechanism can be
// given; credentials of [WithAuth] follow it. Servers need a JAAS section and the provider
// SASLAuthenticationProvider, see SERVERS.md.
//
// The exchange takes two thirds of the session timeout at most. Then the client connects to the next
// server. During the exchange pings keep the session, unless the server accepts none before the
// exchange is complete.
//
// [Connect] returns a refusal at once, with [ErrAuthFailed]. A client that runs tries the other servers, and
// ends when all have refused it, as after the refusal of a credential (see [WithAuth]). If the credentials
// may change (see [SASLMechanism].Renews) it does not end, and tries again with growing pauses of up
// to 30 s. A server that does not know SASL costs its connection, and ends a client, and Connect,
// only when no server of the ensemble does. Each reason is logged once, and never a secret.
func WithSASL(mechanism SASLMechanism) Option {
	return optionFunc(func(c *config) error {
		switch {
		case mechanism == nil:
			return errors.New("SASL mechanism nil, expected one such as framework.DigestMD5(user, password)")
		case c.sasl != nil:
			return fmt.Errorf("SASL mechanisms %s and %s, expected one", c.sasl.Mechanism, mechanism.Name())
		}
		if mechanism, ok := mechanism.(interface{ validate() error }); ok {
			if err := mechanism.validate(); err != nil {
				return err
			}
		}
		c.sasl = &conduit.SASL{Mechanism: mechanism.Name(), Renews: mechanism.Renews(), Start: startSASL(mechanism)}
		return nil
	})
}

// startSASL adapts a mechanism to the conduit.
func startSASL(mechanism SASLMechanism) func(context.Context, string, net.Addr) (conduit.SASLStep, error) {
	return func(ctx context.Context, server string, address net.Addr) (conduit.SASLStep, error) {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			return nil, err
		}
		var exchange SASLExchange
		if err := guardSASL(func() (err error) {
			exchange, err = mechanism.Start(ctx, SASLServer{Host: host, Address: address})
			return err
		}); err != nil {
			return nil, err
		}
		if exchange == nil {
			return nil, conduit.Refuse(errors.New("the mechanism has returned neither an exchange nor an error"))
		}
		return func(ctx context.Context, challenge []byte) (answer []byte, done bool, err error) {
			err = guardSASL(func() (err error) {
				answer, err = exchange.Next(ctx, challenge)
				done = exchange.Done()
				return err
			})
			return answer, done, err
		}, nil
	}
}

// guardSASL calls the mechanism. A panic would end the process.
func guardSASL(call func() error) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			// Other values than the runtime's may have secrets in them.
			said := reflect.TypeOf(recovered).String()
			if r, ok := recovered.(runtime.Error); ok {
				said = r.Error()
			}
			err = conduit.Refuse(errors.New("the mechanism panicked: " + said))
		}
	}()
	if err = call(); errors.Is(err, ErrAuthFailed) {
		return conduit.Refuse(err)
	}
	return err
}
