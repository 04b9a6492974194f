// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// Errors of this package, to be matched with errors.Is against the [OpError] that a verb
// returns. ErrNotConnected, ErrConnectionLost and ErrClosed also match go-zookeeper's
// ErrNoServer, ErrConnectionClosed and ErrClosing.
var (
	// ErrNotStarted reports a call before [Framework.Start].
	ErrNotStarted = errors.New("client not started")

	// ErrClosed reports a call after [Framework.Close], or a call that Close cut short.
	ErrClosed error = &sentinel{"client closed", zk.ErrClosing}

	// ErrNotConnected reports a request that was not sent, because there was no
	// connection within the connection timeout, or because the connection ended first.
	// It has certainly not been applied.
	ErrNotConnected error = &sentinel{"not connected", zk.ErrNoServer}

	// ErrConnectionLost reports a request whose connection ended before the reply
	// came. See [OutcomeUnknown].
	ErrConnectionLost error = &sentinel{"connection lost", zk.ErrConnectionClosed}

	// ErrSessionEnded reports a request that was bound to a session or a history (see
	// [InSession] and [InHistory]) that is no longer the current one. It was not sent.
	ErrSessionEnded = errors.New("the session has ended")

	// ErrInvalidPath reports a path that no ZooKeeper server would accept, or a change of
	// the root or of the reserved /zookeeper. Nothing was sent.
	ErrInvalidPath = errors.New("invalid path")

	// ErrInvalidOption reports an option, a combination of options or another argument
	// that makes no sense, such as a nil context. Nothing was sent.
	ErrInvalidOption = errors.New("invalid option")

	// ErrTooLarge reports a request larger than [WithMaxRequestSize], which was not sent, or
	// a reply larger than [WithMaxReplySize], such as a list of very many children. The call
	// is not repeated, as a second try would be as large.
	ErrTooLarge = errors.New("too large")

	// ErrMalformedReply reports a reply that does not have the fields its request
	// asks for. The connection was cut.
	ErrMalformedReply = errors.New("malformed reply")

	// ErrUnsupported reports a request that the server's version of ZooKeeper does not
	// have. The message names the server and, if known, its version.
	ErrUnsupported = errors.New("not supported by the server")

	// ErrCleanupPending reports that a znode could not be deleted within the call. The client
	// goes on trying in the background until it succeeds or the client ends.
	ErrCleanupPending = errors.New("deletion goes on in the background")
)

// Errors of the server, the same values as go-zookeeper's.
var (
	ErrNoNode                  = zk.ErrNoNode
	ErrNodeExists              = zk.ErrNodeExists
	ErrBadVersion              = zk.ErrBadVersion
	ErrNotEmpty                = zk.ErrNotEmpty
	ErrNoAuth                  = zk.ErrNoAuth
	ErrAuthFailed              = zk.ErrAuthFailed // of a credential; see WithAuth
	ErrInvalidACL              = zk.ErrInvalidACL
	ErrNoChildrenForEphemerals = zk.ErrNoChildrenForEphemerals
	ErrSessionExpired          = zk.ErrSessionExpired
	ErrSessionMoved            = zk.ErrSessionMoved
)

// ErrNotReadOnly reports a write to a server that has no quorum. The write was not applied.
// See [WithReadOnly].
const ErrNotReadOnly = ServerError(wire.CodeNotReadOnly)

// sentinel is an error that also matches an error of go-zookeeper, for programs that used
// that package before.
type sentinel struct {
	text string
	zk   error
}

func (e *sentinel) Error() string { return e.text }

func (e *sentinel) Is(target error) bool { return target == e.zk }

// errNilContext reports a call without a context.
var errNilContext = fmt.Errorf("%w: context nil, expected one such as context.Background()", ErrInvalidOption)

// errOutcomeUnknown marks a write that may or may not have been applied.
var errOutcomeUnknown = errors.New("it may have been applied")

// errOtherHistory is the outcome of a request whose history has ended.
var errOtherHistory = fmt.Errorf("%w, or another history of the servers has begun", ErrSessionEnded)

// errOtherSession is the outcome of a request that is bound to a session which the client does not have.
var errOtherSession = fmt.Errorf("%w, or it is another client's", ErrSessionEnded)

// errUnsearchable marks the failure of a search that no retry will change.
var errUnsearchable = errors.New("the folder of a znode that may exist must not be listed")

// OpError is the error of every verb.
type OpError struct {
	Op   string // the verb: "create", "delete", "get", ...
	Path string // as the caller named it, or the parent that could not be created; "" for none
	Err  error
}

// Error names the verb, the path and the cause.
func (e *OpError) Error() string {
	var bad *pathError
	if e.Path == "" || errors.As(e.Err, &bad) && bad.path == e.Path { // the cause names the path
		return fmt.Sprintf("framework: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("framework: %s %s: %v", e.Op, shown(e.Path, strings.Clone), e.Err)
}

// shownPath is how many bytes of a path an error shows.
const shownPath = 1000

// shown returns a path as errors have it. A cut one ends with its length, so that it is not taken for another path.
func shown(path string, as func(string) string) string {
	if len(path) <= shownPath {
		return as(path)
	}
	return fmt.Sprintf("%s... (a path of %d bytes)", as(strings.ToValidUTF8(path[:shownPath], "")), len(path))
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// ServerError is an error code of a server for which this package has no named error. The
// codes are defined by ZooKeeper's KeeperException.
type ServerError int32

// Error names the code.
func (e ServerError) Error() string {
	if name, ok := serverErrorNames[e]; ok {
		return fmt.Sprintf("server error %d (%s)", int32(e), name)
	}
	return fmt.Sprintf("server error %d", int32(e))
}

// The codes without a named error that the framework itself looks for.
const (
	errConnectionLoss   = ServerError(wire.CodeConnectionLoss) // between the servers
	errOperationTimeout = ServerError(wire.CodeOperationTimeout)
	errThrottled        = ServerError(wire.CodeThrottled)
	errUnimplemented    = ServerError(wire.CodeUnimplemented)
)

var serverErrorNames = map[ServerError]string{
	wire.CodeSystemError: "system error", wire.CodeRuntimeInconsistency: "runtime inconsistency",
	wire.CodeDataInconsistency: "data inconsistency", errConnectionLoss: "connection loss",
	wire.CodeMarshallingError: "marshalling error", wire.CodeUnimplemented: "unimplemented",
	errOperationTimeout: "operation timeout", wire.CodeUnknownSession: "unknown session",
	wire.CodeNewConfigNoQuorum: "new config without a quorum", wire.CodeReconfigInProgress: "reconfiguration in progress",
	wire.CodeInvalidCallback: "invalid callback", ErrNotReadOnly: "not allowed in read-only mode",
	wire.CodeEphemeralOnLocal: "ephemeral node on a local session", wire.CodeNoWatcher: "no such watcher",
	wire.CodeRequestTimeout: "request timeout", wire.CodeReconfigDisabled: "reconfiguration disabled",
	wire.CodeQuotaExceeded: "quota exceeded",
	errThrottled:           "operation throttled",
}

var serverErrors = map[int32]error{
	wire.CodeBadArguments: zk.ErrBadArguments, wire.CodeAPIError: zk.ErrAPIError, wire.CodeNoNode: zk.ErrNoNode,
	wire.CodeNoAuth: errNoPermission, wire.CodeBadVersion: zk.ErrBadVersion,
	wire.CodeNoChildrenForEphemeral: zk.ErrNoChildrenForEphemerals, wire.CodeNodeExists: zk.ErrNodeExists,
	wire.CodeNotEmpty: zk.ErrNotEmpty, wire.CodeSessionExpired: zk.ErrSessionExpired,
	wire.CodeInvalidACL: zk.ErrInvalidACL, wire.CodeAuthFailed: zk.ErrAuthFailed, wire.CodeSessionMoved: zk.ErrSessionMoved,
	wire.CodeSASLRequired: errSASLRequired,
}

// errNoPermission is ErrNoAuth with another text. The text of go-zookeeper, "not
// authenticated", makes a user look for a wrong password.
var errNoPermission = fmt.Errorf("no permission by the access control list (NoAuth: %w)", zk.ErrNoAuth)

// errSASLRequired is ErrAuthFailed from a server that serves no client without an identity.
var errSASLRequired = fmt.Errorf("%w: the server serves only clients that have authenticated by SASL, or by another of its schemes", zk.ErrAuthFailed)

func serverError(code int32) error {
	if err, ok := serverErrors[code]; ok {
		return err
	}
	return ServerError(code)
}

// InterruptedError reports that the context of a call ended. errors.Is matches Err. It also
// matches errors in Cause, unless they are of this package or of ZooKeeper: an [ErrNoNode]
// in Cause was the answer to another call. In Cause errors.As finds types of other packages,
// and the [*LostError] with which the contexts of sessions and leases end.
type InterruptedError struct {
	Err   error // context.Canceled or context.DeadlineExceeded
	Cause error // of the context; Err if it has no other
}

// Error names the end of the context and its cause.
func (e *InterruptedError) Error() string {
	text, cause := e.Err.Error(), fmt.Sprint(e.Cause) // which survives a method Error that panics, as on a nil pointer
	if cause == text || cause == "<nil>" {
		return text
	}
	return text + ": " + cause
}

// Unwrap returns Err.
func (e *InterruptedError) Unwrap() error { return e.Err }

// Is reports whether Cause matches target. It reports false if target is an error of this
// package or of ZooKeeper, because such an error in Cause does not say how this call went.
func (e *InterruptedError) Is(target error) bool {
	switch target {
	case nil, errOutcomeUnknown, zk.ErrNoServer, zk.ErrConnectionClosed, zk.ErrClosing:
		return false
	default:
		return ErrorType(target) == otherErrorType && errors.Is(e.Cause, target)
	}
}

// As finds target in Cause, unless it is an error that describes a call of this package.
func (e *InterruptedError) As(target any) bool {
	switch target.(type) {
	case **OpError, *ServerError, **backoff.PermanentError:
		return false
	default:
		return errors.As(e.Cause, target)
	}
}

// interrupted returns the error of a call whose context has ended.
func interrupted(ctx context.Context) error {
	return &InterruptedError{Err: ctx.Err(), Cause: context.Cause(ctx)}
}

// isReply reports whether a request failed with this answer of a server. The cause of a
// context and the failure of an attempt to connect do not match as answers: see
// InterruptedError and attemptError.
func isReply(err, answer error) bool {
	op, ok := errors.AsType[*OpError](err)
	return ok && errors.Is(op.Err, answer)
}

// Retryable reports whether the same call may succeed when it is made again. That is so if
// there was no connection, the connection was lost, the session moved or expired, or the
// server was too busy. It does not report whether repeating is safe; use [OutcomeUnknown]
// for that. The set is Curator's default, and requests that a server has throttled. Retry
// policies decide about these errors only.
func Retryable(err error) bool {
	var code ServerError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, ErrSessionEnded), errors.Is(err, ErrClosed):
		// Checked first, because these errors may wrap a retryable cause.
		return false
	case errors.Is(err, ErrNotConnected), errors.Is(err, ErrConnectionLost),
		errors.Is(err, ErrSessionExpired), errors.Is(err, ErrSessionMoved):
		return true
	case errors.As(err, &code):
		return code == errConnectionLoss || code == errOperationTimeout || code == errThrottled
	default:
		return false
	}
}

// leavesDoubt reports whether a server that answers a write with this code may apply it yet. ClickHouse
// Keeper answers so when it has not heard of a commit in time. ZooKeeper does not.
func leavesDoubt(code int32) bool {
	return code == int32(errConnectionLoss) || code == int32(errOperationTimeout)
}

// refusedForNow reports whether a server has refused a request for a reason that may end
// without an event: a quota, or an error inside the server.
func refusedForNow(err error) bool {
	var code ServerError
	return errors.As(err, &code) && code != errUnimplemented && !errors.Is(err, ErrUnsupported)
}

// mayPass reports whether a deletion that failed with this error may succeed later. Missing
// permissions count: they may be granted again, and until then only this client knows that
// the znode has to go.
func mayPass(err error) bool {
	return Retryable(err) || refusedForNow(err) || errors.Is(err, ErrNoAuth) && !errors.Is(err, errUnsearchable)
}

// OutcomeUnknown reports whether the write that failed may have been applied. It was sent, and
// no readable reply came, or the server has answered that it does not know. A write that fails
// with any other error has certainly not been applied.
func OutcomeUnknown(err error) bool { return errors.Is(err, errOutcomeUnknown) }

// attemptError is the failure of the newest attempt to connect, within another error.
// errors.As finds its types, but errors.Is does not match it, because the deadline of an
// attempt is not the caller's deadline.
type attemptError struct{ reason error }

func (e attemptError) Error() string { return "the newest attempt: " + e.reason.Error() }

// As finds the errors of crypto/tls and net.
func (e attemptError) As(target any) bool { return errors.As(e.reason, target) }

// ignoring returns err, or nil if it is an ordinary answer to the caller.
func ignoring(err, ordinary error) error {
	if errors.Is(err, ordinary) {
		return nil
	}
	return err
}

// errorTypes are the names of the errors, the specific ones first.
var errorTypes = []struct {
	err  error
	name string
}{
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "deadline_exceeded"},
	{ErrNoNode, "no_node"},
	{ErrNodeExists, "node_exists"},
	{ErrBadVersion, "bad_version"},
	{ErrNotEmpty, "not_empty"},
	{ErrNoAuth, "no_auth"},
	{ErrAuthFailed, "auth_failed"},
	{ErrInvalidACL, "invalid_acl"},
	{ErrNoChildrenForEphemerals, "no_children_for_ephemerals"},
	{ErrClosed, "closed"},
	{ErrNotStarted, "not_started"},
	{ErrSessionEnded, "session_ended"},
	{ErrSessionExpired, "session_expired"},
	{ErrSessionMoved, "session_moved"},
	{ErrNotReadOnly, "not_read_only"},
	{ErrTooLarge, "too_large"},
	{ErrMalformedReply, "malformed_reply"},
	{ErrNotConnected, "not_connected"},
	{ErrConnectionLost, "connection_lost"},
	{ErrInvalidPath, "invalid_path"},
	{ErrInvalidOption, "invalid_option"},
	{zk.ErrBadArguments, "bad_arguments"},
	{zk.ErrAPIError, "api_error"},
	{ErrCompression, "compression"},
	{ErrUnsupported, "unsupported"},
	{ErrCleanupPending, "cleanup_pending"},
}

// otherErrorType is OpenTelemetry's name of an error without a class.
const otherErrorType = "_OTHER"

// ErrorType returns the class of an error for the attribute error.type, such as "no_node",
// "connection_lost" or "canceled". For a [ServerError] the class has the code, such as
// "server_-6". For an error that is not of this package it is OpenTelemetry's "_OTHER". It
// returns "" for nil. The set of names is small, and a name contains nothing of the call.
func ErrorType(err error) string {
	if err == nil {
		return ""
	}
	for _, t := range errorTypes {
		if errors.Is(err, t.err) {
			return t.name
		}
	}
	var code ServerError
	if errors.As(err, &code) {
		return "server_" + strconv.Itoa(int(code))
	}
	return otherErrorType
}

// isAnswer reports whether an error is an ordinary answer of a server about the znodes,
// not a failure.
func isAnswer(err error) bool {
	return errors.Is(err, ErrNoNode) || errors.Is(err, ErrNodeExists) ||
		errors.Is(err, ErrBadVersion) || errors.Is(err, ErrNotEmpty)
}

// ErrCompression reports data that could not be compressed or decompressed, or that
// would become larger than the provider allows.
var ErrCompression = errors.New("compression failed")

func unsupported(why *conduit.TooOldError) error { return fmt.Errorf("%w: %w", ErrUnsupported, why) }

// pathError matches ErrInvalidPath and says what is wrong with a path.
type pathError struct{ path, why string }

func (e *pathError) Error() string {
	return fmt.Sprintf("%v %s: %s", ErrInvalidPath, shown(e.path, strconv.Quote), e.why)
}

func (e *pathError) Unwrap() error { return ErrInvalidPath }
