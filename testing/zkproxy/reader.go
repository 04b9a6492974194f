// SPDX-License-Identifier: Apache-2.0

package zkproxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

var errGarbage = errors.New("zkproxy: not a frame of ZooKeeper's protocol")

// read puts frames into the queue until reading fails or the link is over.
func (s *stream) read() {
	defer close(s.queue)
	in := bufio.NewReader(s.from)
	for first := true; ; first = false {
		f, err := s.next(in, first)
		select {
		case s.queue <- piece{frame: f, err: err, read: time.Now()}:
		case <-s.link.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// next reads one frame, or a piece of what is there if the connection carries no frames. An end within a frame is io.EOF too.
func (s *stream) next(in *bufio.Reader, first bool) (Frame, error) {
	if _, err := in.Peek(1); err != nil { // wait for something, which decides whether there are frames
		return Frame{}, err
	}
	if s.link.raw.Load() {
		return s.chunk(in)
	}
	length, err := in.Peek(4)
	if err != nil {
		return Frame{}, err
	}
	if first && s.direction == ToServer && isWord(length) {
		s.link.raw.Store(true) // before anything is forwarded, so before the server has something to say
		return s.chunk(in)
	}
	body, err := s.body(in)
	if err != nil {
		return Frame{}, err
	}
	f, err := parseFrame(s.link.number, s.direction, first, body)
	if err != nil {
		return Frame{}, fmt.Errorf("%w: %w", errGarbage, err)
	}
	return f, nil
}

func (s *stream) body(in io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if most := s.link.proxy.maxFrame; int64(n) > int64(most) {
		return nil, fmt.Errorf("%w: length is %#x bytes, expected at most %d", errGarbage, n, most)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(in, body); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = io.EOF
		}
		return nil, err
	}
	return body, nil
}

func (s *stream) chunk(in *bufio.Reader) (Frame, error) {
	b := make([]byte, in.Buffered())
	_, err := io.ReadFull(in, b)
	return Frame{Conn: s.link.number, Direction: s.direction, Kind: Raw, Body: b}, err
}

// isWord reports whether four bytes are a four letter word. As a length they would be more than a gigabyte.
func isWord(b []byte) bool {
	for _, c := range b {
		if c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}
