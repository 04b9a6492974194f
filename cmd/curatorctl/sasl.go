// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/framework/gssapi"
	"github.com/gocurator/curator/internal/secrets"
)

// saslSettings say by which identity SASL authenticates.
type saslSettings struct {
	text                                   secrets.Secret
	file, keytab, principal, cache, server string
}

// What stands for a file or a principal.
const (
	defaultCache    = "default"
	canonicalServer = "canonical"
)

// register adds the flags. CURATOR_SASL has none, since there is a password in it.
func (s *saslSettings) register(fs *flag.FlagSet) {
	fs.Var((*text)(&s.file), "sasl-file", "`file` for SASL: digest-md5:user:password, or JAAS with a section Client")
	fs.Var((*text)(&s.keytab), "sasl-keytab", "`file` with the key of -sasl-principal for Kerberos")
	fs.Var((*text)(&s.principal), "sasl-principal", "`name` of the principal whose key is in -sasl-keytab, such as reports@EXAMPLE.COM")
	fs.Var((*text)(&s.cache), "sasl-cache", "`file` with the tickets of kinit for Kerberos, or default")
	fs.Var((*text)(&s.server), "sasl-server", "`principal` of all servers in Kerberos, or canonical for the hosts of the name service; default: zookeeper/ and the host in -servers")
}

// credential is a user with a password, or a principal of Kerberos with its keytab or its tickets.
type credential struct {
	user, keytab, principal, cache string
	password                       secrets.Secret
}

// mechanism returns the mechanism of SASL, nil for none. Its errors show no password.
func (s *saslSettings) mechanism() (framework.SASLMechanism, error) {
	id, where, given := credential{keytab: s.keytab, principal: s.principal, cache: s.cache}, "-sasl-keytab", s.given()
	switch {
	case len(given) > 1:
		return nil, fmt.Errorf("%s: expected one", strings.Join(given, " together with "))
	case s.principal != "" && s.keytab == "":
		return nil, errors.New("-sasl-principal without -sasl-keytab")
	case s.keytab != "" && s.principal == "":
		return nil, errors.New("-sasl-keytab without -sasl-principal, expected one of the names that klist -k lists")
	case len(given) == 0 && s.server != "":
		return nil, errors.New("-sasl-server without -sasl-keytab, -sasl-cache or -sasl-file")
	case len(given) == 0:
		return nil, nil //nolint:nilnil // there is none
	case s.cache != "":
		where = "-sasl-cache"
	case s.keytab == "":
		var err error
		if id, where, err = s.read(); err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
	}
	m, err := id.mechanism(s.server)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return m, nil
}

// given names the credentials that the user has given, of which one is expected at most.
func (s *saslSettings) given() (names []string) {
	for _, setting := range []struct{ name, value string }{
		{"CURATOR_SASL", s.text.Text()},
		{"-sasl-file or CURATOR_SASL_FILE", s.file},
		{"-sasl-keytab or CURATOR_SASL_KEYTAB", s.keytab},
		{"-sasl-cache or CURATOR_SASL_CACHE", s.cache},
	} {
		if setting.value != "" {
			names = append(names, setting.name)
		}
	}
	return names
}

// read returns the credential in CURATOR_SASL or the file, and where that is.
func (s *saslSettings) read() (id credential, where string, err error) {
	where, text := "CURATOR_SASL", s.text.Text()
	if s.file != "" {
		where = "-sasl-file"
		content, err := os.ReadFile(s.file)
		if err != nil {
			return credential{}, where, err
		}
		where, text = where+" "+s.file, strings.TrimRight(string(content), "\r\n")
	}
	name, rest, _ := strings.Cut(text, ":")
	user, password, found := strings.Cut(rest, ":")
	switch {
	case strings.EqualFold(name, "digest-md5") && found:
		return credential{user: user, password: secrets.Hide(password)}, where, nil
	case strings.EqualFold(name, "digest-md5") || !strings.Contains(text, "{"):
		return credential{}, where, errors.New("expected digest-md5:user:password, or JAAS with a section Client; Kerberos has -sasl-keytab and -sasl-cache, too")
	}
	l, err := readJAAS(text)
	if err == nil {
		id, err = l.credential()
	}
	return id, where, err
}

// mechanism returns the mechanism of a credential at servers of a principal.
func (id credential) mechanism(server string) (framework.SASLMechanism, error) {
	var opts []gssapi.Option
	switch {
	case server == "":
	case id.keytab == "" && id.cache == "":
		return nil, errors.New("-sasl-server with DIGEST-MD5, expected Kerberos")
	case server == canonicalServer:
		opts = append(opts, gssapi.WithCanonicalHost())
	default:
		opts = append(opts, gssapi.WithServerPrincipal(server))
	}
	var m *gssapi.Mechanism
	var err error
	switch {
	case id.keytab != "":
		m, err = gssapi.Keytab(id.keytab, id.principal, opts...)
	case id.cache == defaultCache:
		m, err = gssapi.CredentialCache("", opts...)
	case id.cache != "":
		m, err = gssapi.CredentialCache(id.cache, opts...)
	default:
		return framework.DigestMD5(id.user, id.password.Text()), nil
	}
	if err != nil {
		return nil, err // and not m, which would be a mechanism that is nil
	}
	return m, nil
}
