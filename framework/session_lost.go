package framework

// LostReason is the reason why a session, or a hold on it, was lost. Telemetry uses the
// same values.
type LostReason string

// The reasons. The client reports what it sees first: when a session is killed at the
// server, its ephemeral nodes go first, so a lock's holder may see ReasonNodeDeleted or
// ReasonSuspended before a reconnect brings ReasonSessionExpired.
const (
	// ReasonSuspended: the connection was lost, and the policy is
	// StandardErrorPolicy.
	ReasonSuspended LostReason = "suspended"

	// ReasonLeaseEnd: no server has acknowledged the session for so long that it
	// may have expired.
	ReasonLeaseEnd LostReason = "lease_end"

	// ReasonSessionExpired: a server said that the session has expired.
	ReasonSessionExpired LostReason = "session_expired"

	// ReasonNodeDeleted: the znode that represents the hold is gone.
	ReasonNodeDeleted LostReason = "node_deleted"

	// ReasonAuthFailed: a server has refused a credential, which ends the client. See
	// ErrAuthFailed.
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

// Error names the reason.
func (e *LostError) Error() string { return "lost: " + lostTexts[e.Reason] }

// Is matches [ErrSessionExpired] if the session has, or may have, expired, which
// retry.SessionFailed looks for; [ErrAuthFailed] if a credential was refused; and
// [ErrClosed] if the client was closed.
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
