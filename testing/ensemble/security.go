// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// WithTLS gives every server a second port, with TLS, at [Server.SecureAddr]. keys is a PEM file with the servers' certificate and
// its unencrypted PKCS #8 key; trust is a PEM file with certificates of authorities. Both names must end in .pem. Clients are asked
// for a certificate that one of these authorities has signed, for any name, which can be an identity of the scheme x509.
//
// Debian's zookeeper.jar does not name all the jars that TLS needs. WithTLS adds them, unless [WithClassPath] says what to use.
func WithTLS(keys, trust string) Option {
	return optionFunc(func(s *settings) error {
		s.secure = true
		s.properties["zookeeper.serverCnxnFactory"] = "org.apache.zookeeper.server.NettyServerCnxnFactory"
		s.properties["zookeeper.ssl.hostnameVerification"] = "false"       // of clients, by address
		s.properties["zookeeper.ssl.enabledProtocols"] = "TLSv1.2,TLSv1.3" // 3.9.5 would take TLS 1.3 alone
		var errs [2]error
		s.properties["zookeeper.ssl.keyStore.location"], errs[0] = pemFile(keys)
		s.properties["zookeeper.ssl.trustStore.location"], errs[1] = pemFile(trust)
		return errors.Join(errs[:]...)
	})
}

// pemFile returns the absolute path of a file that a server will take for one.
func pemFile(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err == nil && filepath.Ext(path) != ".pem" {
		err = errors.New("it is told by its name what is in it")
	}
	if err != nil {
		return "", fmt.Errorf("ensemble: TLS with %q, expected a file whose name ends in .pem: %w", name, err)
	}
	return path, nil
}

// debianTLS are the jars that netty needs for TLS beside those that Debian's zookeeper.jar names.
const debianTLS = "/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar:/usr/share/java/netty-transport-native-unix-common.jar"

// SecureAddr returns the host:port on which clients connect with TLS, or "" without [WithTLS].
func (s *Server) SecureAddr() string {
	if !s.settings.secure {
		return ""
	}
	return net.JoinHostPort(s.ip, strconv.Itoa(s.ports.secure))
}

// WithSuperDigest makes every ACL void for clients that present these credentials with the scheme digest, in the form user:password.
func WithSuperDigest(user, password string) Option {
	// ZooKeeper's DigestAuthenticationProvider uses SHA-1 unless it is told otherwise.
	digest := sha1.Sum([]byte(user + ":" + password))
	return option(user != "" && !strings.Contains(user, ":"), func(s *settings) {
		s.properties["zookeeper.DigestAuthenticationProvider.superDigest"] = user + ":" + base64.StdEncoding.EncodeToString(digest[:])
	}, "the super user has no name, or one with a colon")
}

// WithSASLUsers makes every server know SASL by the mechanism DIGEST-MD5, with these users and their passwords, by a JAAS file
// of its own. The users and passwords may not have quotation marks, backslashes or line breaks.
func WithSASLUsers(passwords map[string]string) Option {
	return optionFunc(func(s *settings) error {
		section, err := digestSection(passwords)
		if err != nil {
			return err
		}
		return WithJAAS(section).apply(s)
	})
}

func digestSection(passwords map[string]string) (string, error) {
	var b strings.Builder
	b.WriteString("Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required")
	for _, user := range slices.Sorted(maps.Keys(passwords)) {
		if user == "" || strings.ContainsAny(user+passwords[user], "\"\\\r\n") {
			return "", errors.New("ensemble: a SASL user without a name, or a name or a password that a JAAS file cannot have")
		}
		fmt.Fprintf(&b, "\n  \"user_%s\"=\"%s\"", user, passwords[user])
	}
	b.WriteString(";\n};\n")
	return b.String(), nil
}

// WithJAAS gives every server a JAAS file with this text, which must have a section Server, and the scheme sasl. In the text
// the word _HOST stands for the server's address without the port, as for principals of Kerberos.
func WithJAAS(text string) Option {
	return option(strings.Contains(text, "Server"), func(s *settings) {
		s.jaas = text
		s.properties["zookeeper.authProvider.1"] = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
	}, "JAAS without a section Server")
}

// WithRequiredSASL makes the servers refuse every request of a client that has not authenticated by SASL.
func WithRequiredSASL() Option {
	return plain(func(s *settings) {
		s.properties["zookeeper.enforce.auth.enabled"] = "true"
		s.properties["zookeeper.enforce.auth.schemes"] = "sasl"
	})
}

// SetSASLUsers replaces the users of [WithSASLUsers] from the next start of each server on.
func (e *Ensemble) SetSASLUsers(passwords map[string]string) error {
	section, err := digestSection(passwords)
	if err != nil {
		return err
	}
	for _, s := range e.Servers() {
		if err := s.writeJAAS(section); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) jaasFile() string { return filepath.Join(s.dir, "jaas.conf") }

func (s *Server) writeJAAS(text string) error {
	return writeFiles(map[string]string{s.jaasFile(): strings.ReplaceAll(text, "_HOST", s.ip)})
}

// WithKerberos makes every server know SASL by the mechanism GSSAPI, as the principal zookeeper/address@realm, where the address is
// the server's without the port. The keys of these principals are in the file keytab. krb5conf is the path of krb5.conf.
func WithKerberos(krb5conf, keytab, realm string) Option {
	return optionFunc(func(s *settings) error {
		if krb5conf == "" || keytab == "" || realm == "" || strings.ContainsAny(keytab+realm, "\"\\\r\n") {
			return errors.New("ensemble: Kerberos without krb5.conf, keytab or realm, or with one that a JAAS file cannot have")
		}
		s.properties["java.security.krb5.conf"] = krb5conf
		return WithJAAS(fmt.Sprintf("Server {\n  com.sun.security.auth.module.Krb5LoginModule required\n  useKeyTab=true keyTab=\"%s\""+
			"\n  storeKey=true useTicketCache=false principal=\"zookeeper/_HOST@%s\";\n};\n", keytab, realm)).apply(s)
	})
}
