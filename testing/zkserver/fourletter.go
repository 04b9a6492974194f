// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"bytes"
	"context"
	"fmt"
)

// FourLetterWord returns the answer to one of the words that the server also answers on a connection: ruok, srvr, stat,
// mntr, cons, dump, conf, envi, isro, wchs, wchp, wchc, srst, crst. It makes no connection, and so works on a server that is
// paused, out of reach or [WithoutListener]. It does not block; it fails for other words and when ctx has ended.
func (s *Server) FourLetterWord(ctx context.Context, word string) (string, error) {
	if ctx.Err() != nil {
		return "", fmt.Errorf("zkserver: %s: %w", word, context.Cause(ctx))
	}
	answer := adminCommands[word]
	if answer == nil {
		return "", fmt.Errorf("zkserver: four-letter word %q: one that ZooKeeper knows expected, such as mntr", word)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out bytes.Buffer
	answer(s, &out)
	return out.String(), nil
}
