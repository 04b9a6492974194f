// SPDX-License-Identifier: Apache-2.0

package zkserver

import "fmt"

// OpCode is the type of a request, as ZooKeeper numbers it (ZooDefs.OpCode). A hook given to [Server.Intercept] uses
// it to choose the requests it cares about.
type OpCode int32

// The requests that the server knows. OpCreateSession never appears in a request header: it stands for the connect
// request that opens a connection, whether it asks for a new session or for an old one.
const (
	OpCreateSession        OpCode = -10
	OpCloseSession         OpCode = -11
	OpCreate               OpCode = 1
	OpDelete               OpCode = 2
	OpExists               OpCode = 3
	OpGetData              OpCode = 4
	OpSetData              OpCode = 5
	OpGetACL               OpCode = 6
	OpSetACL               OpCode = 7
	OpGetChildren          OpCode = 8
	OpSync                 OpCode = 9
	OpPing                 OpCode = 11
	OpGetChildren2         OpCode = 12
	OpCheck                OpCode = 13
	OpMulti                OpCode = 14
	OpCreate2              OpCode = 15
	OpReconfig             OpCode = 16
	OpCheckWatches         OpCode = 17
	OpRemoveWatches        OpCode = 18
	OpCreateContainer      OpCode = 19
	OpDeleteContainer      OpCode = 20
	OpCreateTTL            OpCode = 21
	OpMultiRead            OpCode = 22
	OpAuth                 OpCode = 100
	OpSetWatches           OpCode = 101
	OpSASL                 OpCode = 102
	OpGetEphemerals        OpCode = 103
	OpGetAllChildrenNumber OpCode = 104
	OpSetWatches2          OpCode = 105
	OpAddWatch             OpCode = 106
	OpWhoAmI               OpCode = 107
)

// opError is the type of a failed operation in the reply to a multi.
const opError OpCode = -1

var opNames = map[OpCode]string{
	OpCreateSession:        "createSession",
	OpCloseSession:         "closeSession",
	OpCreate:               "create",
	OpDelete:               "delete",
	OpExists:               "exists",
	OpGetData:              "getData",
	OpSetData:              "setData",
	OpGetACL:               "getACL",
	OpSetACL:               "setACL",
	OpGetChildren:          "getChildren",
	OpSync:                 "sync",
	OpPing:                 "ping",
	OpGetChildren2:         "getChildren2",
	OpCheck:                "check",
	OpMulti:                "multi",
	OpCreate2:              "create2",
	OpReconfig:             "reconfig",
	OpCheckWatches:         "checkWatches",
	OpRemoveWatches:        "removeWatches",
	OpCreateContainer:      "createContainer",
	OpDeleteContainer:      "deleteContainer",
	OpCreateTTL:            "createTTL",
	OpMultiRead:            "multiRead",
	OpAuth:                 "auth",
	OpSetWatches:           "setWatches",
	OpSASL:                 "sasl",
	OpGetEphemerals:        "getEphemerals",
	OpGetAllChildrenNumber: "getAllChildrenNumber",
	OpSetWatches2:          "setWatches2",
	OpAddWatch:             "addWatch",
	OpWhoAmI:               "whoAmI",
}

// String returns ZooKeeper's name of the request, such as "getData", or "opcode(42)" for one the server does not know.
func (op OpCode) String() string {
	if name, ok := opNames[op]; ok {
		return name
	}
	return fmt.Sprintf("opcode(%d)", int32(op))
}

// code is the outcome of a request as the reply header carries it (KeeperException.Code).
type code int32

const (
	codeOK                      code = 0
	codeRuntimeInconsistency    code = -2
	codeMarshalling             code = -5
	codeUnimplemented           code = -6
	codeBadArguments            code = -8
	codeNoNode                  code = -101
	codeNoAuth                  code = -102
	codeBadVersion              code = -103
	codeNoChildrenForEphemerals code = -108
	codeNodeExists              code = -110
	codeNotEmpty                code = -111
	codeSessionExpired          code = -112
	codeInvalidACL              code = -114
	codeAuthFailed              code = -115
	codeSessionMoved            code = -118
	codeNotReadOnly             code = -119
	codeNoWatcher               code = -121
	codeReconfigDisabled        code = -123
	codeSASLRequired            code = -124
)
