// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// compareLimits sends both servers frames that are too long, too short or none, and connect requests that are cut at
// every place or ask for what is not to be had.
func compareLimits(t *testing.T, apache, ours string) {
	t.Helper()
	connect := body{}.int(0).long(0).int(5000).long(0).str(string(make([]byte, 16))).flag(false)
	data := 0xfffff - len(body{}.int(0).int(5).str("/a").str("").int(-1).b) // the largest
	set := func(size int) body { return body{}.int(1).int(5).str("/a").str(string(make([]byte, size))).int(-1) }
	frame := func(b body) body { return body{}.str(string(b.b)) }
	cases := map[string][]body{
		"largest frame":                {frame(connect), frame(set(data))},
		"frame above the limit":        {frame(connect), frame(set(data + 1))},
		"negative frame":               {frame(connect), body{}.int(-1)},
		"empty frame":                  {frame(connect), frame(body{})},
		"half a header":                {frame(connect), frame(body{}.int(1))},
		"negative frame to begin with": {body{}.int(-5)},
		"empty frame to begin with":    {frame(body{})},
		"a large frame to begin with":  {body{}.int(0x100000)},
		"two connect requests":         {frame(connect), frame(connect)},
		"junk after the request":       {frame(body{append(connect.b[:len(connect.b):len(connect.b)], "junk"...)})},
		"another protocol version":     {frame(body{}.int(7).join(body{connect.b[4:]}))},
		"no timeout":                   {frame(body{}.int(0).long(0).int(-1).join(body{connect.b[16:]}))},
		"the longest timeout":          {frame(body{}.int(0).long(0).int(1<<31 - 1).join(body{connect.b[16:]}))},
		"null password":                {frame(body{}.int(0).long(0).int(5000).long(0).null().flag(false))},
		"short password":               {frame(body{}.int(0).long(0).int(5000).long(0).str("x").flag(false))},
		"password longer than told":    {frame(body{}.int(0).long(0).int(5000).long(0).int(1 << 20).flag(false))},
		"password of negative length":  {frame(body{}.int(0).long(0).int(5000).long(0).int(-7).flag(false))},
		"null password of a session":   {frame(body{}.int(0).long(0).int(5000).long(77).null().flag(false))},
		"read-only":                    {frame(body{append(connect.b[:len(connect.b)-1:len(connect.b)-1], 1)})},
		"read-only by another byte":    {frame(body{append(connect.b[:len(connect.b)-1:len(connect.b)-1], 7)})},
	}
	for n := range connect.b {
		cases[fmt.Sprintf("connect request of %d bytes", n)] = []body{frame(body{connect.b[:n]})}
	}
	for name, sent := range cases {
		assert.Equal(t, answersTo(t, apache, sent), answersTo(t, ours, sent), name)
	}
}

// answersTo tells of the answer to each of the frames, until the server hangs up.
func answersTo(t *testing.T, addr string, sent []body) []string {
	t.Helper()
	nc := must.Get(dialTCP(addr))(t)
	defer nc.Close()
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	c := &rawClient{nc: nc}
	var answers []string
	for i, b := range sent {
		_, err := nc.Write(b.b)
		var answer []byte
		if err == nil {
			answer, err = c.read()
		}
		if err != nil {
			return append(answers, fmt.Sprintf("hung up %t", ended(err)))
		}
		r := reader{b: answer}
		if i == 0 {
			version, timeout, session, password := r.int(), r.int(), r.long(), r.str()
			answers = append(answers, fmt.Sprintf("version %d, timeout %d, session %t, password of %d bytes, %x",
				version, timeout, session != 0, len(password), r.b))
			continue
		}
		xid, _, code := r.int(), r.long(), r.int()
		answers = append(answers, fmt.Sprintf("reply to %d, code %d, %d bytes more", xid, code, len(r.b)))
	}
	return answers
}
