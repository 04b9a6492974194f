// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
)

const digestChallenge = `realm="zk-sasl-md5",nonce="abc",charset=utf-8,algorithm=md5-sess`

// answerTo is what DIGEST-MD5 answers to a challenge, and its exchange.
func answerTo(tb testing.TB, challenge string) (framework.SASLExchange, string, error) {
	tb.Helper()
	exchange := must.Get(framework.DigestMD5(`al"i\ce`, "wonderland").Start(tb.Context(), framework.SASLServer{Host: "a"}))(tb)
	first := must.Get(exchange.Next(tb.Context(), nil))(tb)
	require.NotNil(tb, first, "rather null, on which servers fail")
	require.Empty(tb, first)
	answer, err := exchange.Next(tb.Context(), []byte(challenge))
	require.False(tb, exchange.Done())
	return exchange, string(answer), err
}

// TestSASLDigestChallenges: all that RFC 2831 allows is understood, whatever is around it.
func TestSASLDigestChallenges(t *testing.T) {
	for _, challenge := range []string{
		digestChallenge,
		` REALM = "zk-sasl-md5" , , nonce="abc" ,algorithm=md5-sess,`,
		`algorithm="md5-sess",nonce=abc,realm="zk-sasl-md5",realm="other",qop="auth-int, auth",maxbuf=65536,unknown=1`,
	} {
		_, answer, err := answerTo(t, challenge)
		require.NoError(t, err, challenge)
		for _, part := range []string{
			`username="al\"i\\ce"`, `realm="zk-sasl-md5"`, `nonce="abc"`, `nc=00000001`, `cnonce="`,
			`digest-uri="zookeeper/zk-sasl-md5"`, `response=`, `qop=auth`,
		} {
			require.Contains(t, answer, part, challenge)
		}
		require.Equal(t, strings.Contains(challenge, "utf-8"), strings.Contains(answer, "charset=utf-8"))
		require.NotContains(t, answer, "wonderland")
	}
	one, _, err := answerTo(t, digestChallenge)
	require.NoError(t, err)
	_, first, _ := answerTo(t, digestChallenge)
	_, second, _ := answerTo(t, digestChallenge)
	require.NotEqual(t, first, second, "each exchange has a nonce of the client's own")

	// A server that does not know the password cannot prove it.
	_, err = one.Next(t.Context(), []byte("rspauth=00000000000000000000000000000000"))
	require.ErrorIs(t, err, framework.ErrAuthFailed)
	require.ErrorContains(t, err, "the server has not proved")
}

// TestSASLDigestBadDigestChallenges: each has an error that says what is wrong, and shows nothing of the password.
func TestSASLDigestBadDigestChallenges(t *testing.T) {
	for challenge, want := range map[string]string{
		`nonce= "n,algorithm=md5-sess`:       "a quoted value without an end",
		"":                                   "0 times nonce",
		`nonce="",algorithm=md5-sess`:        "an empty nonce",
		`nonce=a,nonce=b,algorithm=md5-sess`: "2 times nonce",
		`nonce=a`:                            "0 times algorithm",
		`nonce=a,algorithm=sha`:              "another algorithm",
		`nonce=a,algorithm=md5-sess,charset=ebcdic`: "another charset",
		`nonce=a,algorithm=md5-sess,qop="auth-int"`: "qop=auth",
		`nonce="a`:                           "without an end",
		`nonce="a\`:                          "without an end",
		`nonce="a"b,algorithm=md5-sess`:      "something behind one",
		`nonce`:                              "without a name or a value",
		`="a"`:                               "without a name or a value",
		"nonce=" + strings.Repeat("a", 2048): "at most 2048",
	} {
		_, answer, err := answerTo(t, challenge)
		require.ErrorContains(t, err, want, challenge)
		require.Empty(t, answer)
		require.NotContains(t, err.Error(), "wonderland")
	}
	latin := `nonce=a,algorithm=md5-sess`
	exchange := must.Get(framework.DigestMD5("иван", "wonderland").Start(t.Context(), framework.SASLServer{}))(t)
	must.Get(exchange.Next(t.Context(), nil))(t)
	_, err := exchange.Next(t.Context(), []byte(latin))
	require.ErrorContains(t, err, "does not take UTF-8")
}

// TestSASLDigestFunctionOfDigestMD5: its errors cost the connection, unless they are refusals, and what it returns is checked.
func TestSASLDigestFunctionOfDigestMD5(t *testing.T) {
	mine := errors.New("the vault is sealed")
	_, err := framework.DigestMD5Func(func(context.Context) (string, string, error) { return "", "", mine }).
		Start(t.Context(), framework.SASLServer{})
	require.ErrorIs(t, err, mine)
	require.NotErrorIs(t, err, framework.ErrAuthFailed)
	_, err = framework.DigestMD5Func(func(context.Context) (string, string, error) { return "", "x", nil }).
		Start(t.Context(), framework.SASLServer{})
	require.ErrorIs(t, err, framework.ErrAuthFailed)
}

// FuzzDigestChallenge: whatever a server sends, there is an answer or an error, and no proof is accepted by chance.
func FuzzDigestChallenge(f *testing.F) {
	f.Add([]byte(digestChallenge), []byte("rspauth=0"))
	f.Add([]byte(`nonce="\"`), []byte(`rspauth="`))
	f.Fuzz(func(t *testing.T, challenge, proof []byte) {
		exchange, answer, err := answerTo(t, string(challenge))
		if err != nil {
			require.Empty(t, answer)
			return
		}
		require.Contains(t, answer, "response=")
		_, err = exchange.Next(t.Context(), proof)
		require.Error(t, err)
		require.True(t, exchange.Done())
	})
}
