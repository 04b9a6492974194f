// SPDX-License-Identifier: Apache-2.0

package gssapi

import (
	"bytes"
	"context"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/gocurator/curator/framework"
)

// exchange is the exchange of one connection: a ticket, the server's offer of security layers, and the choice of none.
type exchange struct {
	ticket *ticket
	accept func() // is told when the server has proved that it can read the ticket
	failed error  // there is no ticket for this server

	step int
	key  hiddenKey // made for this exchange
	seq  uint64
}

// keptExchange is an exchange with a ticket that another connection has used.
type keptExchange struct {
	*exchange
	drop func() // forgets the ticket
}

var _ framework.SASLKeptExchange = (*keptExchange)(nil)

func (e *keptExchange) Refused() { e.drop() }

func (e *exchange) Done() bool { return e.step > 1 }

func (e *exchange) Next(_ context.Context, challenge []byte) ([]byte, error) {
	if e.failed != nil {
		return nil, e.failed
	}
	e.step++
	switch e.step {
	case 1:
		return e.first()
	case 2:
		return e.choose(challenge)
	default:
		return nil, errors.New("a challenge after the last one, expected the end of the exchange")
	}
}

// first is the token of RFC 4121, section 4.1: an AP-REQ. It asks for no answer of its own. The protection of the
// server's offer proves as much. Its key is made here, and sent under the ticket's key. So only the server that the
// ticket is for can read it, and it was in no earlier exchange.
func (e *exchange) first() ([]byte, error) {
	auth, err := types.NewAuthenticator(e.ticket.realm, e.ticket.client)
	if err != nil {
		return nil, err
	}
	key := e.ticket.key()
	if err := auth.GenerateSeqNumberAndSubKey(key.KeyType, len(key.KeyValue)); err != nil {
		return nil, err
	}
	e.key, e.seq = hide(auth.SubKey), uint64(auth.SeqNumber)
	// Section 4.1.1: the length and 16 bytes of channel bindings, of which there are none, and flags.
	bindings := make([]byte, 24)
	binary.LittleEndian.PutUint32(bindings, 16)
	binary.LittleEndian.PutUint32(bindings[20:], gssapi.ContextFlagInteg)
	auth.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: bindings}
	request, err := messages.NewAPReq(e.ticket.ticket, key, auth)
	if err != nil {
		return nil, err
	}
	body, err := request.Marshal()
	if err != nil {
		return nil, err
	}
	token, err := asn1.Marshal(asn1.ObjectIdentifier{1, 2, 840, 113554, 1, 2, 2}) // Kerberos 5
	if err != nil {
		return nil, err
	}
	token = append(token, 1, 0) // an AP-REQ
	return asn1tools.AddASNAppTag(append(token, body...), 0), nil
}

const noLayer = 1 // of the security layers in an offer, as a bit

// choose answers the server's offer of security layers (RFC 4752, section 3.1).
func (e *exchange) choose(challenge []byte) ([]byte, error) {
	if bytes.HasPrefix(challenge, []byte("realm=")) || bytes.Contains(challenge, []byte(`nonce="`)) {
		return nil, fmt.Errorf("%w: the server asks for DIGEST-MD5: the section Server of its JAAS file is not for Kerberos (Krb5LoginModule)", framework.ErrAuthFailed)
	}
	offer, err := e.unwrap(challenge)
	if err != nil {
		return nil, err
	}
	e.accept()
	if offer[0]&noLayer == 0 {
		return nil, fmt.Errorf("%w: the server demands a security layer (javax.security.sasl.qop), expected auth", framework.ErrAuthFailed)
	}
	token := gssapi.WrapToken{Payload: []byte{noLayer, 0, 0, 0}, SndSeqNum: e.seq}
	if err := token.SetCheckSum(e.key(), keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		return nil, err
	}
	token.EC = uint16(len(token.CheckSum))
	return token.Marshal()
}

const sealed, acceptorSubkey = 2, 4 // flags of a token

// unwrap returns the content of a server's token (RFC 4121, section 4.2.6.2). It checks that the token comes from the
// server that the ticket is for.
func (e *exchange) unwrap(b []byte) ([]byte, error) {
	b = append([]byte{}, b...)
	if len(b) > gssapi.HdrLen { // the rest is rotated
		rest := b[gssapi.HdrLen:]
		n := int(binary.BigEndian.Uint16(b[6:])) % len(rest)
		copy(rest, append(append([]byte{}, rest[n:]...), rest[:n]...))
	}
	var token gssapi.WrapToken
	if err := token.Unmarshal(b, true); err != nil {
		return nil, fmt.Errorf("malformed GSSAPI challenge of %d bytes: %w", len(b), err)
	}
	if token.Flags&(sealed|acceptorSubkey) != 0 || len(token.Payload) != 4 {
		return nil, fmt.Errorf("malformed GSSAPI challenge: flags %d and %d bytes, expected an offer of security layers", token.Flags, len(token.Payload))
	}
	if ok, err := token.Verify(e.key(), keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil || !ok {
		return nil, fmt.Errorf("%w: the server has not proved that it can read the ticket", framework.ErrAuthFailed)
	}
	return token.Payload, nil
}
