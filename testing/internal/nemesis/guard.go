// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// credential is the digest by which clients and the administrator are known in a guarded round. No other
// process knows the password.
const (
	credential = "nemesis:" + password
	password   = "retribution"
)

// guarded returns the options of a client that presents the credential, and whose nodes only such clients
// may use. The vandal of such a round has no credential.
func guarded() []framework.Option {
	return []framework.Option{framework.WithAuth("digest", []byte(credential)), framework.WithACLProvider(creatorOnly{})}
}

// creatorOnly gives all rights on every node to the identities of its creator, and none to others.
type creatorOnly struct{}

func (creatorOnly) DefaultACL() []framework.ACL {
	return []framework.ACL{{Perms: zk.PermAll, Scheme: "auth"}}
}

func (creatorOnly) ACLForPath(string) []framework.ACL { return nil }

// refuse notes what became of a vandal that has no rights. An operation that was refused cannot have
// ended a hold.
func (r *faultRecord) refuse(err error) error {
	r.Guarded = true
	if !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	r.Refused, r.Nodes = true, nil
	r.Detail += ", refused"
	return nil
}
