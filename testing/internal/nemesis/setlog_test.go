// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is not there in the end was lost by the servers only if the versions in their log say so, or if by
// the log it is there.
func TestSetlogForgottenBySetLog(t *testing.T) {
	t.Parallel()
	type written struct {
		version int32
		values  string
	}
	for name, test := range map[string]struct {
		log            []written
		servers, locks string // the values that these have lost, if they are not there
	}{
		"by the log it is there":              {[]written{{0, ""}, {1, "x"}, {2, "x y"}}, "x y", "never"},
		"written over by who had not read it": {[]written{{0, ""}, {1, "x"}, {2, "y"}}, "y", "x"},
		"a leader did not have it":            {[]written{{0, ""}, {1, "x"}, {1, "y"}}, "x y", ""},
		"a leader did not have the last two":  {[]written{{0, ""}, {1, "x"}, {2, "x y"}, {1, "z"}}, "x y z", ""},
		"a leader did not have the part":      {[]written{{0, "x"}, {1, "x y"}, {0, "z"}, {1, "z u"}}, "x y z u", ""},
		"written over before it could be":     {[]written{{0, ""}, {1, "x"}, {2, "y"}, {1, "z"}}, "y z", "x"},
		"by who had what the leader had not":  {[]written{{0, ""}, {1, "x"}, {1, "y"}, {2, "x z"}}, "x y z", ""},
		"by who had what the leader had, too": {[]written{{0, ""}, {1, "a"}, {2, "a x"}, {2, "a y"}, {3, "a z"}}, "a x z", "y"},
		"by who had nothing":                  {[]written{{0, ""}, {1, "x"}, {1, "y"}, {2, "z"}}, "x z", "y"},
	} {
		l := newSetLog()
		l.write("/nemesis/locks/mutex/_c_0-lock-0000000001", 0, []byte("elsewhere\n"))
		for _, w := range test.log {
			data := strings.TrimLeft(strings.ReplaceAll(w.values, " ", "\n")+"\n", "\n")
			l.write(setsFolder+"mutex/0000000000", w.version, []byte(data))
		}
		for value := range strings.FieldsSeq(test.servers) {
			require.True(t, l.forgotten(value), "%s: %s", name, value)
		}
		for value := range strings.FieldsSeq(test.locks + " elsewhere") {
			require.False(t, l.forgotten(value), "%s: %s", name, value)
		}
	}
}
