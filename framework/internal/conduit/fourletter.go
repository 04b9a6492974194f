// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"context"
	"io"
	"time"
)

// maxAnswer bounds how much of the answer to a four-letter word is read.
const maxAnswer = 4 << 10

// askFourLetterWord sends a four-letter word to a server, over a separate connection, and
// returns the beginning of the answer.
func askFourLetterWord(ctx context.Context, dial dialer, server, word string) (string, error) {
	socket, err := dial(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer socket.Close()
	// A socket that refuses a deadline is closed, and the next call says so.
	stop := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(socket, word); err != nil {
		return "", err
	}
	// Some servers reset the connection behind the answer.
	answer, _ := io.ReadAll(io.LimitReader(socket, maxAnswer))
	return string(answer), nil
}
