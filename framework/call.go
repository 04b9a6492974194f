// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// call is one request of a verb and the handling of its reply. It can be sent any number
// of times.
type call struct {
	operation
	path string // as the caller named it
	body []byte

	settings *common // of the verb, for a read of a pipeline; nil for other calls
	maxReply int     // in place of the client's limit, 0 for that

	confirm bool // a write whose acknowledgement proves that a majority keeps the session

	length int32 // operations of a transaction

	// decode reads the reply. It returns the error of the decoder for a malformed reply, and
	// another error for unacceptable content.
	decode func(wire.Decoder) error

	// refused, when set, translates an error of the server into the call's outcome.
	refused func(error) error

	// errInto, when set, gets the server's refusal, or the error of decode. The exchange does not
	// fail by it then.
	errInto *error

	follower follower // nil for none
}

// follower takes part in a request: the watch that a read sets, or the create whose reply
// counts even after its caller has gone.
type follower interface {
	// begin is called before each try, and returns a function that receives the outcome of
	// the try in stream order.
	begin() func(conduit.Reply, error)

	// deliver receives the outcome of the whole exchange.
	deliver(ok bool)
}

// isJoinable reports whether a call is a read of data, or of a Stat by exists, that sets no watch. The
// conduit has such reads share a request.
func (c *call) isJoinable() bool {
	return (c.code == wire.OpGetData || c.code == wire.OpExists) && c.follower == nil
}

// replied decodes the reply to a call.
func (c *call) replied(reply conduit.Reply, sent *conduit.Call) error {
	if reply.Code == wire.CodeUnimplemented {
		// The version could not be found out, but the answer shows it.
		if why := sent.NoteTooOld(); why != nil {
			return unsupported(why)
		}
	}
	switch {
	// For some verbs a refusal is an answer, such as NoNode for Exists.
	case reply.Code != 0 && c.refused != nil:
		return c.keep(c.refused(serverError(reply.Code)))
	case c.write && leavesDoubt(reply.Code):
		return fmt.Errorf("%w: %w", serverError(reply.Code), errOutcomeUnknown)
	case reply.Code != 0:
		return c.keep(serverError(reply.Code))
	case c.decode == nil:
		return nil
	}
	err := c.decode(*wire.NewDecoder(reply.Body))
	if !errors.Is(err, wire.ErrMalformed) {
		return c.keep(err)
	}
	// A server that garbles one reply is not trusted with the next.
	sent.Distrust(err)
	err = fmt.Errorf("%w: %w", ErrMalformedReply, err)
	if c.write { // the server has applied it, but the rest of the reply is unreliable
		err = fmt.Errorf("%w: %w", err, errOutcomeUnknown)
	}
	return err
}

// keep stores an error where errInto says, and returns what the exchange fails by.
func (c *call) keep(err error) error {
	if c.errInto == nil || err == nil || Retryable(err) { // a retry sends all calls again
		return err
	}
	*c.errInto = failed(c.operation, c.path, err)
	return nil
}

// hasFailed reports whether the call alone has failed.
func (c *call) hasFailed() bool { return c.errInto != nil && *c.errInto != nil }

// pathCall builds a request that consists of a path.
func pathCall(root chroot, op operation, path string, decode func(wire.Decoder) error) ([]*call, error) {
	if err := ValidatePath(path); err != nil {
		return nil, err
	}
	var e wire.Encoder
	e.String(root.full(path))
	return []*call{{operation: op, path: path, body: e.Bytes(), decode: decode}}, nil
}

// answeringNoNode is a refused for which NoNode is an answer and not an error.
func answeringNoNode(absent func()) func(error) error {
	return func(err error) error {
		if err != ErrNoNode { //nolint:errorlint // it is the answer itself
			return err
		}
		absent()
		return nil
	}
}
