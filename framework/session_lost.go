package framework

// LostReason says why something that is bound to a session was lost. The values
// are those of the telemetry.
type LostReason string

// The reasons. What is seen first is what is told: when a session is killed at
// the server, its ephemeral nodes go first, and a lock's holder may learn of
// ReasonNodeDeleted or ReasonSuspended before a reconnect brings
// ReasonSessionExpired.
const (
	// ReasonSuspended: the connection was lost, and the policy is
	// StandardErrorPolicy.
	ReasonSuspended LostReason = "suspended"

	// ReasonLeaseEnd: no server has acknowledged the session for so long that it
	// may have expired.
	ReasonLeaseEnd LostReason = "lease_end"

	// ReasonSessionExpired: a server said that the session has expired.
	ReasonSessionExpired LostReason = "session_expired"

	// ReasonNodeDeleted: the znode that stands for the hold is gone.
	ReasonNodeDeleted LostReason = "node_deleted"

	// ReasonAuthFailed: a server has refused a credential of the client, which is the
	// end of the client. See ErrAuthFailed.
	ReasonAuthFailed LostReason = "auth_failed"

	// ReasonClosed: the client was closed.
	ReasonClosed LostReason = "closed"
)

var lostTexts = map[LostReason]string{
	ReasonSuspended:      "the connection is suspended",
	ReasonLeaseEnd:       "no server has confirmed the session in time",
	ReasonSessionExpired: "the session has expired",
	ReasonNodeDeleted:    "its znode was deleted",
	ReasonAuthFailed:     "a server has refused the client's credential",
	ReasonClosed:         "the client was closed",
}

// LostError is the cause with which a session, and every hold on it, ends against
// its owner's will.
type LostError struct {
	Reason LostReason
}

// Error says what happened.
func (e *LostError) Error() string { return "lost: " + lostTexts[e.Reason] }

// Is matches [ErrSessionExpired] when the session has, or may have, expired, so
// that a retry policy can tell (retry.SessionFailed), [ErrAuthFailed] when a
// credential was refused, and [ErrClosed] when the client was closed.
func (e *LostError) Is(target error) bool {
	switch target {
	case ErrSessionExpired:
		return e.Reason == ReasonSessionExpired || e.Reason == ReasonLeaseEnd
	case ErrAuthFailed:
		return e.Reason == ReasonAuthFailed
	case ErrClosed:
		return e.Reason == ReasonClosed
	default:
		return false
	}
}
