package main

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// credential is the digest by which clients and the administrator are known in a guarded round. The
// password is what nobody else knows.
const (
	credential = "nemesis:" + password
	password   = "retribution"
)

// guarded are the options of a client that presents the credential, and whose nodes are for those
// only who do. The vandal of such a round has no credential.
func guarded() []framework.Option {
	return []framework.Option{framework.WithAuth("digest", []byte(credential)), framework.WithACLProvider(creatorOnly{})}
}

// creatorOnly gives all rights on every node to the identities of who creates it.
type creatorOnly struct{}

func (creatorOnly) DefaultACL() []framework.ACL {
	return []framework.ACL{{Perms: zk.PermAll, Scheme: "auth"}}
}

func (creatorOnly) ACLForPath(string) []framework.ACL { return nil }

// refuse notes what became of a vandal who has no rights. Nothing that was refused can have ended
// a hold.
func (r *faultRecord) refuse(err error) error {
	r.Guarded = true
	if !errors.Is(err, zk.ErrNoAuth) {
		return err
	}
	r.Refused, r.Nodes = true, nil
	r.Detail += ", refused"
	return nil
}
