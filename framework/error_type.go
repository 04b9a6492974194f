package framework

import (
	"context"
	"errors"
	"strconv"

	"github.com/go-zookeeper/zk"
)

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

// ErrorType returns the class of an error for the attribute error.type: "no_node",
// "connection_lost", "canceled" and so on, "server_-6" for a [ServerError], and
// OpenTelemetry's "_OTHER" for an error that is not of this package. It returns "" for nil.
// The set of names is small, and a name contains nothing of the call.
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
