// SPDX-License-Identifier: Apache-2.0

package gssapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unique"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/gocurator/curator/framework"
)

// ticket is a ticket for one principal, with what its client needs to use it.
type ticket struct {
	ticket messages.Ticket
	key    hiddenKey
	realm  string // the client's
	client types.PrincipalName

	got, end time.Time
	of       material
}

// hiddenKey returns a key. It is a function because neither a log nor an error can look into one.
type hiddenKey func() types.EncryptionKey

func hide(key types.EncryptionKey) hiddenKey { return func() types.EncryptionKey { return key } }

func (t *ticket) renewAt() time.Time { return t.got.Add(t.end.Sub(t.got) / 2) }

// source knows the credentials of a principal.
type source interface {
	// read returns what the credentials are now.
	read() (material, error)

	// grant returns the ticket-granting ticket, and a client without a session: gokrb5 would keep
	// a goroutine for each session.
	grant(ctx context.Context, conf *config.Config, of material) (*client.Client, *ticket, error)
}

// material is what credentials are made of. Tickets of other material are not used, unless no KDC can be
// reached and the client is the same.
type material struct {
	client string
	data   unique.Handle[string] // of the file, whose keys no log can see in there
}

type keytabSource struct{ path, principal string }

func (s *keytabSource) read() (material, error) {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return material{}, refused(fmt.Errorf("keytab %s: %w", s.path, withoutPath(err)))
	}
	return material{s.principal, unique.Make(string(data))}, nil
}

func (s *keytabSource) grant(_ context.Context, conf *config.Config, of material) (*client.Client, *ticket, error) {
	keys := keytab.New()
	if err := guarded(func() error { return keys.Unmarshal([]byte(of.data.Value())) }); err != nil {
		return nil, nil, refused(fmt.Errorf("keytab %s: %w", s.path, err))
	}
	user, realm := split(s.principal, conf)
	if !has(keys, user, realm) {
		return nil, nil, refused(fmt.Errorf("keytab %s has no key of %s@%s", s.path, user, realm))
	}
	return login(client.NewWithKeytab(user, realm, keys, conf, client.DisablePAFXFAST(true)))
}

func has(keys *keytab.Keytab, user, realm string) bool {
	for _, entry := range keys.Entries {
		if strings.Join(entry.Principal.Components, "/") == user && entry.Principal.Realm == realm {
			return true
		}
	}
	return false
}

type passwordSource struct {
	principal string
	password  func(context.Context) (string, error)
}

func (s *passwordSource) read() (material, error) { return material{client: s.principal}, nil }

func (s *passwordSource) grant(ctx context.Context, conf *config.Config, _ material) (*client.Client, *ticket, error) {
	password, err := s.password(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the function that knows the password: %w", err)
	}
	user, realm := split(s.principal, conf)
	return login(client.NewWithPassword(user, realm, password, conf, client.DisablePAFXFAST(true)))
}

func split(principal string, conf *config.Config) (user, realm string) {
	user, realm, found := strings.Cut(principal, "@")
	if !found {
		realm = conf.LibDefaults.DefaultRealm
	}
	return user, realm
}

// login asks the KDC for the ticket-granting ticket.
func login(c *client.Client) (*client.Client, *ticket, error) {
	realm, name := c.Credentials.Domain(), c.Credentials.CName()
	request, err := messages.NewASReqForTGT(realm, c.Config, name)
	if err != nil {
		return nil, nil, refused(err)
	}
	asked := time.Now()
	reply, err := c.ASExchange(realm, request, 0)
	if err != nil {
		return nil, nil, explain(err)
	}
	part := reply.DecryptedEncPart
	return c, &ticket{ticket: reply.Ticket, key: hide(part.Key), realm: realm, client: name, got: asked, end: part.EndTime}, nil
}

// clientSource is a client that the program has made and keeps logged in.
type clientSource struct{ client *client.Client }

func (s *clientSource) read() (material, error) { return material{}, nil }

// grant asks for another ticket-granting ticket, since the client does not show the one that it has.
func (s *clientSource) grant(_ context.Context, conf *config.Config, _ material) (*client.Client, *ticket, error) {
	realm, name := s.client.Credentials.Domain(), s.client.Credentials.CName()
	t, key, err := s.client.GetServiceTicket("krbtgt/" + realm)
	if err != nil {
		return nil, nil, explain(err)
	}
	return unused(name, realm, conf), &ticket{ticket: t, key: hide(key), realm: realm, client: name}, nil
}

// unused returns a client whose password is not used.
func unused(name types.PrincipalName, realm string, conf *config.Config) *client.Client {
	return client.NewWithPassword(name.PrincipalNameString(), realm, "", conf, client.DisablePAFXFAST(true))
}

type cacheSource struct{ path string }

func (s *cacheSource) read() (material, error) {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return material{}, refused(fmt.Errorf("no ticket: credential cache %s: %w", s.path, withoutPath(err)))
	}
	cache, err := s.parse(string(data))
	if err != nil {
		return material{}, err
	}
	return material{cache.GetClientPrincipalName().PrincipalNameString() + "@" + cache.GetClientRealm(), unique.Make(string(data))}, nil
}

func (s *cacheSource) parse(data string) (*credentials.CCache, error) {
	cache := new(credentials.CCache)
	if err := guarded(func() error { return cache.Unmarshal([]byte(data)) }); err != nil {
		return nil, refused(fmt.Errorf("no ticket: credential cache %s: %w", s.path, err))
	}
	return cache, nil
}

func (s *cacheSource) grant(_ context.Context, conf *config.Config, of material) (*client.Client, *ticket, error) {
	cache, err := s.parse(of.data.Value())
	if err != nil {
		return nil, nil, err
	}
	realm, name := cache.GetClientRealm(), cache.GetClientPrincipalName()
	newest := &ticket{realm: realm, client: name}
	for _, entry := range cache.GetEntries() {
		if entry.Server.PrincipalName.PrincipalNameString() != "krbtgt/"+realm || !entry.EndTime.After(newest.end) {
			continue
		}
		if err := newest.ticket.Unmarshal(entry.Ticket); err != nil {
			return nil, nil, refused(fmt.Errorf("credential cache %s: %w", s.path, err))
		}
		newest.key, newest.got, newest.end = hide(entry.Key), entry.StartTime, entry.EndTime
	}
	switch {
	case newest.end.IsZero():
		return nil, nil, refused(fmt.Errorf("no ticket: credential cache %s has none of krbtgt/%s", s.path, realm))
	case !time.Now().Before(newest.end):
		return nil, nil, refused(fmt.Errorf("no ticket: those in the credential cache %s have expired at %s; run kinit again",
			s.path, newest.end.Format(time.RFC3339)))
	}
	return unused(name, realm, conf), newest, nil
}

// fetch gets a ticket for a server.
func fetch(ctx context.Context, s source, conf *config.Config, of material, principal string) (*ticket, error) {
	c, grant, err := s.grant(ctx, conf, of)
	if err != nil {
		return nil, err
	}
	defer c.Destroy() // a referral has made sessions
	name, realm, _ := strings.Cut(principal, "@")
	asked := time.Now()
	server := types.NewPrincipalName(nametype.KRB_NT_SRV_INST, name)
	if realm == "" {
		realm = conf.ResolveRealm(server.NameString[len(server.NameString)-1])
	}
	if realm == "" {
		realm = grant.realm
	}
	if realm != grant.realm {
		// The ticket of that realm's KDC comes from this one.
		if grant, err = exchangeTicket(c, types.NewPrincipalName(nametype.KRB_NT_SRV_INST, "krbtgt/"+realm), grant.realm, grant, asked); err != nil {
			return nil, err
		}
	}
	return exchangeTicket(c, server, realm, grant, asked)
}

func exchangeTicket(c *client.Client, server types.PrincipalName, realm string, grant *ticket, asked time.Time) (*ticket, error) {
	_, reply, err := c.TGSREQGenerateAndExchange(server, realm, grant.ticket, grant.key(), false)
	if err != nil {
		return nil, explain(err)
	}
	part := reply.DecryptedEncPart
	return &ticket{ticket: reply.Ticket, key: hide(part.Key), realm: grant.realm, client: grant.client, got: asked, end: part.EndTime}, nil
}

// guarded reads a file. gokrb5 panics at some that are cut short.
func guarded(read func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("it is damaged")
		}
	}()
	return read()
}

// withoutPath returns an error of a file, whose path is named around it.
func withoutPath(err error) error {
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// errUnknownServer marks the answer of a KDC that does not know a server. It may know the others.
var errUnknownServer = errors.New("KDC_ERR_S_PRINCIPAL_UNKNOWN")

// refused marks an error that another try with the same credentials would meet again.
func refused(err error) error { return fmt.Errorf("%w: %w", framework.ErrAuthFailed, err) }

// hints say what to look at, by the name of a KDC's error. gokrb5 has no other mark of them.
var hints = []struct{ name, hint string }{
	{"KDC_ERR_PREAUTH_FAILED", "the password or the keytab is not the principal's, or is an old one"},
	{"KRB_AP_ERR_BAD_INTEGRITY", "the password or the keytab is not the principal's, or is an old one"},
	{"KDC_ERR_C_PRINCIPAL_UNKNOWN", "the KDC does not know the client's principal"},
	{"KDC_ERR_S_PRINCIPAL_UNKNOWN", "the KDC does not know the server's principal: see WithServerPrincipal"},
	{"KRB_AP_ERR_SKEW", "the clocks of this machine and of the KDC differ by more than the KDC allows"},
	{"KDC_ERR_CLIENT_REVOKED", "the client's principal is locked"},
	{"KDC_ERR_KEY_EXP", "the client's password has expired"},
	{"KDC_ERR_NAME_EXP", "the client's principal has expired"},
	{"KDC_ERR_ETYPE_NOSUPP", "client and KDC have no encryption type in common: see default_tkt_enctypes in krb5.conf"},
	{"TKT_EXPIRED", "no ticket: the one to get others with has expired"},
	{"password/keytab incorrect", "the password or the keytab is not the principal's, or is an old one"},
	{"matching key not found", "the keytab has no key of the encryption type or version that the KDC asks for"},
}

// explain adds to an error of gokrb5 what to look at. Without an answer of a KDC it is no refusal.
func explain(err error) error {
	text := err.Error()
	for _, h := range hints {
		if strings.Contains(text, h.name) {
			if h.name == errUnknownServer.Error() {
				return refused(fmt.Errorf("%s (%w)", h.hint, errUnknownServer))
			}
			return refused(fmt.Errorf("%s (%s)", h.hint, h.name))
		}
	}
	if strings.Contains(text, "Networking_Error") {
		return fmt.Errorf("no KDC could be reached: %w", err)
	}
	return refused(err)
}
