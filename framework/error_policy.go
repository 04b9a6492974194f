package framework

import "fmt"

// ErrorPolicy determines which trouble ends a client's holds, such as locks and
// leadership. It corresponds to Curator's ConnectionStateErrorPolicy.
//
// The zero value is [StandardErrorPolicy].
type ErrorPolicy int

const (
	// StandardErrorPolicy ends a hold when the connection is lost (Suspended), and
	// in any case at the session's [Session.Deadline].
	//
	// A server that is cut off from its leader goes on answering its clients for up
	// to syncLimit x tickTime. If it is cut off together with its clients, this policy is
	// therefore safe only with a session timeout of at least
	// 1.5 x (syncLimit + 1) x tickTime: 18 s with ZooKeeper's usual syncLimit of 5 and
	// tickTime of 2 s. The client logs a warning about a shorter one; see
	// [WithServerTiming]. With any timeout, the policy is unsafe if such a server falls
	// silent before it disconnects its clients: by then it has acknowledged their requests for
	// longer than the leader has known of them. QuorumErrorPolicy is safe in both cases.
	StandardErrorPolicy ErrorPolicy = iota

	// SessionErrorPolicy ends a hold only at the session's [Session.Deadline], so
	// that a short interruption does no harm. It is safe with a standalone server,
	// and in an ensemble as long as the client's server is not cut off from the others.
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
func (p ErrorPolicy) String() string {
	switch p {
	case StandardErrorPolicy:
		return "standard"
	case SessionErrorPolicy:
		return "session"
	case QuorumErrorPolicy:
		return "quorum"
	default:
		return "unknown"
	}
}
