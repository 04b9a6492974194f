// SPDX-License-Identifier: Apache-2.0

package framework

import "github.com/gocurator/curator/framework/internal/wire"

// operation is one of the protocol's requests.
type operation struct {
	code  int32
	name  string // as an OpError shows it
	write bool
}

var (
	opCreate          = operation{wire.OpCreate2, "create", true}
	opCreateContainer = operation{wire.OpCreateContainer, "create", true}
	opCreateTTL       = operation{wire.OpCreateTTL, "create", true}
	opDelete          = operation{wire.OpDelete, "delete", true}
	opExists          = operation{wire.OpExists, "exists", false}
	opGet             = operation{wire.OpGetData, "get", false}
	opSet             = operation{wire.OpSetData, "set", true}
	opSync            = operation{wire.OpSync, "sync", false}
	opChildren        = operation{wire.OpGetChildren2, "children", false}
	opCheck           = operation{wire.OpCheck, "check", false}
	opTransact        = operation{wire.OpMulti, "transact", true}
	opSetWatches      = operation{wire.OpSetWatches, "watch data", false}
	opAddWatch        = operation{wire.OpAddWatch, "add watch", false}

	opGetACL            = operation{wire.OpGetACL, "get ACL", false}
	opSetACL            = operation{wire.OpSetACL, "set ACL", true}
	opReconfig          = operation{wire.OpReconfig, "reconfig", true}
	opEphemerals        = operation{wire.OpGetEphemerals, "ephemerals", false}
	opAllChildrenNumber = operation{wire.OpGetAllChildrenNumber, "all children number", false}
	opWhoAmI            = operation{wire.OpWhoAmI, "identities", false}
)

// opPipeline is not a request: several reads in one write are measured under its name.
var opPipeline = operation{name: "pipeline"}
