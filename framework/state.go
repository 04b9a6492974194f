// SPDX-License-Identifier: Apache-2.0

package framework

import "fmt"

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

	// ReasonMaxHold: the hold has lasted for as long as its lock allows.
	ReasonMaxHold LostReason = "max_hold"
)

var lostTexts = map[LostReason]string{
	ReasonSuspended:      "the connection is suspended",
	ReasonLeaseEnd:       "no server has confirmed the session in time",
	ReasonSessionExpired: "the session has expired",
	ReasonNodeDeleted:    "its znode was deleted",
	ReasonAuthFailed:     "a server has refused the client's credential",
	ReasonClosed:         "the client was closed",
	ReasonMaxHold:        "it has been held for as long as its lock allows",
}

// LostError is the cause with which a session, and every hold on it, ends against
// its owner's will.
type LostError struct {
	Reason LostReason
}

// Error names the reason.
func (e *LostError) Error() string { return "lost: " + lostTexts[e.Reason] }

// Is matches [ErrSessionExpired] if the session has expired or may have expired;
// retry.SessionFailed looks for this error. It matches [ErrAuthFailed] if a credential was
// refused, and [ErrClosed] if the client was closed.
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

// ConnectionState is the state of a client's connection and session, with
// Curator's names.
type ConnectionState int

const (
	// NotConnected is the state before the first connection. Listeners never receive it.
	NotConnected ConnectionState = iota

	// Connected is the first connection of this client.
	Connected

	// Suspended means that the connection is lost. The session and its ephemeral nodes may
	// live on at the server.
	Suspended

	// Reconnected means that there is a connection again after Suspended or Lost. One-shot
	// watches set before have ended; no event does not mean no change.
	Reconnected

	// Lost means that the session has ended, or has been unconfirmed for so long that it
	// may have. Consider its ephemeral nodes and locks gone. The client goes on connecting
	// and will open another session.
	Lost

	// ReadOnly means that the client is connected to a server without a quorum: reads
	// return what the server knew last, and writes fail with [ErrNotReadOnly]. A client
	// enters it only [WithReadOnly].
	ReadOnly
)

// String returns Curator's name of the state.
func (s ConnectionState) String() string {
	return nameOf(s, "UNKNOWN", "NOT_CONNECTED", "CONNECTED", "SUSPENDED", "RECONNECTED", "LOST", "READ_ONLY")
}

func nameOf[T ~int](value T, unknown string, names ...string) string {
	if value < 0 || int(value) >= len(names) {
		return unknown
	}
	return names[value]
}

// IsConnected reports whether requests can be sent in this state.
func (s ConnectionState) IsConnected() bool {
	return s == Connected || s == Reconnected || s == ReadOnly
}

// ErrorPolicy determines which trouble ends a client's holds, such as locks and
// leadership. It corresponds to Curator's ConnectionStateErrorPolicy.
//
// No hold outlasts the session's [Session.Deadline], so a policy of a program's own could only end holds earlier. Such a
// program takes SessionErrorPolicy, and releases its leases in a listener of [Framework.OnConnectionState].
//
// The zero value is [StandardErrorPolicy].
type ErrorPolicy int

const (
	// StandardErrorPolicy ends a hold when the connection is lost (Suspended), and
	// in any case at the session's [Session.Deadline].
	//
	// A server that is cut off from its leader goes on answering its clients for up to syncLimit
	// x tickTime. If it is cut off together with its clients, this policy is therefore safe only
	// with a session timeout of at least 1.5 x (syncLimit + 1) x tickTime. With ZooKeeper's
	// usual syncLimit of 5 and tickTime of 2 s that is 18 s. The client logs a warning about a
	// shorter one; see [WithServerTiming]. With any timeout, the policy is unsafe if such a
	// server falls silent before it disconnects its clients. It has then acknowledged requests
	// of sessions that the leader may have expired. QuorumErrorPolicy is safe in both cases.
	StandardErrorPolicy ErrorPolicy = iota

	// SessionErrorPolicy ends a hold only at the session's [Session.Deadline], so that a short
	// interruption does no harm. It is safe with a standalone server. It is safe in an ensemble
	// as long as the client's server is not cut off from the other servers, and does not die.
	// A server tells its leader twice a tick which sessions it has heard from. If it dies before
	// it has told the last ping, the session expires up to a third of its timeout before the
	// deadline. A client that connects to another server until then keeps its session.
	SessionErrorPolicy

	// QuorumErrorPolicy ends a hold at the latest time for which committed writes prove that a
	// majority of the servers keeps the session. It is safe in every partition and with every
	// session timeout; see [Session.Hold].
	QuorumErrorPolicy
)

func (p ErrorPolicy) validate() error {
	if p < StandardErrorPolicy || p > QuorumErrorPolicy {
		return fmt.Errorf("error policy %d, expected StandardErrorPolicy, SessionErrorPolicy or QuorumErrorPolicy", p)
	}
	return nil
}

// String returns Curator's word for the policy.
func (p ErrorPolicy) String() string { return nameOf(p, "unknown", "standard", "session", "quorum") }
