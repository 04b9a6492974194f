// SPDX-License-Identifier: Apache-2.0

package gssapi

import (
	"testing"

	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
)

// offerOf is a server's offer of security layers, rotated by n bytes.
func offerOf(tb testing.TB, key types.EncryptionKey, flags byte, payload []byte, n int) []byte {
	tb.Helper()
	token := gssapi.WrapToken{Flags: flags, Payload: payload}
	require.NoError(tb, token.SetCheckSum(key, keyusage.GSSAPI_ACCEPTOR_SEAL))
	token.EC, token.RRC = uint16(len(token.CheckSum)), uint16(n)
	b, err := token.Marshal()
	require.NoError(tb, err)
	rest := b[gssapi.HdrLen:]
	n = (len(rest) - n) % len(rest)
	copy(rest, append(append([]byte{}, rest[n:]...), rest[:n]...))
	return b
}

// exchanging is an exchange that waits for the offer.
func exchanging(seed byte) (*exchange, *int) {
	key := make([]byte, 32)
	for i := range key {
		key[i] = seed
	}
	accepted := new(int)
	return &exchange{step: 1, key: hide(types.EncryptionKey{KeyType: etypeID.AES256_CTS_HMAC_SHA1_96, KeyValue: key}), accept: func() { *accepted++ }}, accepted
}

// TestExchangeOffers: those of the server are understood, rotated or not, and all others are refused.
func TestExchangeOffers(t *testing.T) {
	for _, n := range []int{0, 5, 12} {
		e, accepted := exchanging(1)
		answer, err := e.Next(t.Context(), offerOf(t, e.key(), 1, []byte{7, 0, 0xff, 0xff}, n))
		require.NoError(t, err)
		require.True(t, e.Done())
		require.Equal(t, 1, *accepted)
		var token gssapi.WrapToken
		require.NoError(t, token.Unmarshal(answer, false))
		ok, err := token.Verify(e.key(), keyusage.GSSAPI_INITIATOR_SEAL)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, []byte{1, 0, 0, 0}, token.Payload)
	}
	ours, _ := exchanging(1)
	other, _ := exchanging(2)
	for want, offer := range map[string][]byte{
		"the server has not proved":       offerOf(t, other.key(), 1, []byte{1, 0, 0, 0}, 0),
		"demands a security layer":        offerOf(t, ours.key(), 1, []byte{4, 0, 0, 0}, 0),
		"expected an offer":               offerOf(t, ours.key(), 1, []byte{1}, 0),
		"flags 3":                         offerOf(t, ours.key(), 3, []byte{1, 0, 0, 0}, 0),
		"acceptor flag":                   offerOf(t, ours.key(), 0, []byte{1, 0, 0, 0}, 0),
		"shorter than header":             {5, 4},
		"malformed GSSAPI challenge of 0": {},
		"asks for DIGEST-MD5":             []byte(`realm="zk-sasl-md5",nonce="x",charset=utf-8,algorithm=md5-sess`),
	} {
		e, _ := exchanging(1)
		_, err := e.Next(t.Context(), offer)
		require.ErrorContains(t, err, want)
	}
	e, accepted := exchanging(1)
	_, err := e.Next(t.Context(), offerOf(t, other.key(), 1, []byte{1, 0, 0, 0}, 0))
	require.ErrorIs(t, err, framework.ErrAuthFailed)
	require.Zero(t, *accepted, "and the ticket is not used again")
}

// FuzzOffer: whatever a server sends, there is an error.
func FuzzOffer(f *testing.F) {
	e, _ := exchanging(2)
	f.Add(offerOf(f, e.key(), 1, []byte{1, 0, 0, 0}, 3))
	f.Fuzz(func(t *testing.T, offer []byte) {
		e, _ := exchanging(1)
		_, err := e.Next(t.Context(), offer)
		require.Error(t, err)
	})
}
