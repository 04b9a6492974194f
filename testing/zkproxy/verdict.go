// SPDX-License-Identifier: Apache-2.0

package zkproxy

// Verdict is what an interceptor wants done with a frame: [Pass], [Drop], [CutBefore], [CutAfter], [Duplicate], [Stall], a [Replace] or
// an [Answer].
// A nil Verdict is Pass.
type Verdict interface{ verdict() }

type simpleVerdict uint8

func (simpleVerdict) verdict() {}

// The verdicts without a parameter.
const (
	// Pass forwards the frame.
	Pass simpleVerdict = iota

	// Drop loses the frame and nothing else: the connection goes on, and the sender never knows.
	Drop

	// CutBefore resets the connection without forwarding the frame.
	CutBefore

	// CutAfter forwards the frame and then ends the connection. For a request, ping or connect request this means: forward
	// it, wait for its reply, and reset the connection instead of forwarding the reply. So the server has certainly
	// applied or refused the request, and the client certainly does not know. Everything that the server sends before that
	// reply still arrives. For a reply or notification it means: forward it, then close the connection in good order, so
	// that the client gets to read it.
	CutAfter

	// Duplicate forwards the frame twice. A duplicated request has two replies with the same xid.
	Duplicate

	// Stall holds the frame, and all that follow it in this direction of this connection, until Heal lets them go on in their order. Frames
	// behind it are not taken up before that, so interceptors do not see them and they have no number yet.
	Stall
)

// Replace is the verdict that forwards another body instead of the frame's, with the right length before it: Replace(body). The body may be
// anything, garbage included.
type Replace []byte

func (Replace) verdict() {}

// Answer is the verdict that answers a request instead of the server, which does not get it: Answer(body). The body may be anything,
// with a right length before it, and should begin with the request's xid. It goes out at once, ahead of the replies to earlier requests that
// are under way. For a frame to the client it is the same as [Replace].
type Answer []byte

func (Answer) verdict() {}
