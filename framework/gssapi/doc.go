// SPDX-License-Identifier: Apache-2.0

// Package gssapi authenticates clients of ZooKeeper by Kerberos: the SASL mechanism GSSAPI (RFC 4752),
// without a security layer. It is a module of its own, so that only its users depend on
// github.com/jcmturner/gokrb5.
//
//	mechanism, err := gssapi.Keytab("/etc/security/reports.keytab", "reports@EXAMPLE.COM")
//	if err != nil {
//		return err
//	}
//	client, err := framework.Connect(ctx, servers, framework.WithSASL(mechanism))
//
// # Credentials
//
// [Keytab] logs in with the key of a principal, [Password] with its password,
// [CredentialCache] uses the tickets that kinit or k5start has written, and [Client] a client of gokrb5.
// Files are read again for each connection. So a keytab may be renewed, a cache refreshed, destroyed or given
// to another principal while the client runs.
//
// The mechanism keeps the ticket of each server and gets another one when half of its lifetime has
// passed, or when the file has changed. If no KDC can be reached then, the old ticket serves until it expires,
// unless the file is of another principal. A ticket that a server has refused is not used again. So a client is
// back at once when the servers have other keys. The lifetime of a ticket does not bound the lifetime of a connection.
//
// # Configuration
//
// krb5.conf is read as MIT's Kerberos reads it, with included files and several files in KRB5_CONFIG. These
// settings count: default_realm, default_ccache_name, the encryption types, allow_weak_crypto, canonicalize,
// clockskew, ticket_lifetime, dns_lookup_kdc and udp_preference_limit, the kdc of realms, and
// domain_realm. Other settings are passed over. How a server's host becomes a name is an option here, whatever
// dns_canonicalize_hostname and rdns say.
//
// # Names
//
// A server's principal is zookeeper/<host>, where the host stands in the connection string. With
// [WithServiceName] another service replaces zookeeper, as zookeeper.sasl.client.username does in Java.
// With [WithCanonicalHost] the name comes from the address of the connection, which a name of several
// servers needs, as zookeeper.sasl.client.canonicalize.hostname does. [WithServerPrincipal] names one principal
// for all servers, as zookeeper.server.principal does. The realm is the one that krb5.conf maps the
// host to, or the client's.
//
// # What is missing
//
// Requests after the authentication are neither encrypted nor signed: use framework.WithTLS. Tickets need
// encryption types of AES. Caches must be files; KEYRING, KCM and DIR are refused. A server of another realm
// needs a KDC that refers to that realm. A KDC behind an HTTPS proxy cannot be reached, and modules of krb5.conf are
// not loaded.
package gssapi
