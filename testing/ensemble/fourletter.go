// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// ErrNotServing is returned by [Server.Mode] and [Server.Mntr] for a server that runs but takes no clients: it starts, or it has no quorum.
var ErrNotServing = errors.New("ensemble: server is not serving requests")

const (
	// answerTimeout bounds one four letter word, which a healthy server answers in a millisecond and a paused one never.
	answerTimeout = 5 * time.Second

	// maxAnswer bounds an answer in bytes. The largest, wchp, lists every watch.
	maxAnswer = 64 << 20

	notServing = "This ZooKeeper instance is not currently serving requests"
)

// FourLetterWord sends one of ZooKeeper's four letter words (srvr, mntr, cons, dump, wchp, ...) and returns the answer
// as it is. The answer may be that the server is not serving. It fails when there is no answer by the end of the
// context, or after five seconds. Asking counts as a connection of its own in the server's figures.
func (s *Server) FourLetterWord(ctx context.Context, word string) (string, error) {
	return sendWord(ctx, s.dial, s.Addr(), word, s)
}

// FourLetterWord is [Server.FourLetterWord] for any server, at a host:port, that takes four letter words there.
func FourLetterWord(ctx context.Context, addr, word string) (string, error) {
	return sendWord(ctx, new(net.Dialer).DialContext, addr, word, addr)
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// sendWord sends a word to the server at addr; whom names that server in errors.
func sendWord(ctx context.Context, dial dialer, addr, word string, whom any) (string, error) {
	if len(word) != 4 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "", fmt.Errorf("ensemble: four letter word is %q, expected four lower case letters", word)
	}
	answer, err := ask(ctx, dial, addr, word)
	if err != nil {
		return "", fmt.Errorf("ensemble: %s to %v: %w", word, whom, err)
	}
	return answer, nil
}

func ask(ctx context.Context, dial dialer, addr, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close() // everything expected has been read by then
	forget := context.AfterFunc(ctx, func() { conn.Close() })
	defer forget()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", errors.Join(err, ctx.Err())
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxAnswer+1))
	if err != nil {
		return "", errors.Join(err, ctx.Err())
	}
	if len(answer) > maxAnswer {
		return "", fmt.Errorf("answer is longer than %d bytes", maxAnswer)
	}
	return string(answer), nil
}

// askServing is FourLetterWord for words that mean something only while the server serves.
func (s *Server) askServing(ctx context.Context, word string) (string, error) {
	answer, err := s.FourLetterWord(ctx, word)
	if err == nil && strings.HasPrefix(answer, notServing) {
		err = fmt.Errorf("%w: %v", ErrNotServing, s)
	}
	return answer, err
}

// Mode returns the part that the server plays now. A server that is not serving is [ErrNotServing]; one that is down or paused is an
// error of the network, after five seconds at most.
func (s *Server) Mode(ctx context.Context) (Mode, error) {
	answer, err := s.askServing(ctx, "srvr")
	if err != nil {
		return "", err
	}
	mode, found := lineOf(answer, "Mode: ")
	if !found {
		return "", fmt.Errorf("ensemble: no mode in what %v says to srvr: %q", s, answer)
	}
	return Mode(mode), nil
}

// lineOf returns the rest of the line that begins with the text.
func lineOf(answer, beginning string) (rest string, found bool) {
	for line := range strings.Lines(answer) {
		if rest, found := strings.CutPrefix(line, beginning); found {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// Mntr returns the server's figures by name, as the four letter word mntr reports them. They include zk_znode_count,
// zk_ephemerals_count, zk_watch_count and zk_num_alive_connections, which counts the connection of Mntr too. A server
// that is not serving is [ErrNotServing]; one that is down or paused is an error of the network, after five seconds at
// most.
func (s *Server) Mntr(ctx context.Context) (map[string]string, error) {
	answer, err := s.askServing(ctx, "mntr")
	if err != nil {
		return nil, err
	}
	figures := map[string]string{}
	for line := range strings.Lines(answer) {
		if name, value, found := strings.Cut(line, "\t"); found {
			figures[name] = strings.TrimSpace(value)
		}
	}
	return figures, nil
}
