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

// operation is what the server knows of a kind of request.
type operation struct {
	name  string
	stat  string // its name in the figures of a connection (FinalRequestProcessor); "" for credentials, which are not among them
	since serverVersion
	is    traits
}

type traits uint8

const (
	forLeader    traits = 1 << iota // a server cannot answer it by itself (ReadOnlyRequestProcessor)
	pathless                        // it does not begin with a path
	beyondKeeper                    // ClickHouse Keeper lacks it
)

// operations are the requests by their types.
var operations = map[OpCode]operation{
	OpCreateSession:        {"createSession", "SESS", since34, pathless},
	OpCloseSession:         {"closeSession", "CLOS", since34, pathless},
	OpCreate:               {"create", "CREA", since34, forLeader},
	OpCreate2:              {"create2", "CREA", since35, forLeader},
	OpCreateContainer:      {"createContainer", "CREA", since35, forLeader | beyondKeeper},
	OpCreateTTL:            {"createTTL", "CREA", since35, forLeader | beyondKeeper},
	OpDelete:               {"delete", "DELE", since34, forLeader},
	OpDeleteContainer:      {"deleteContainer", "DELE", since35, forLeader | pathless | beyondKeeper},
	OpSetData:              {"setData", "SETD", since34, forLeader},
	OpSetACL:               {"setACL", "SETA", since34, forLeader},
	OpCheck:                {"check", "CHEC", since34, forLeader},
	OpMulti:                {"multi", "MULT", since34, forLeader},
	OpReconfig:             {"reconfig", "RECO", since35, forLeader | pathless},
	OpSync:                 {"sync", "SYNC", since34, forLeader},
	OpExists:               {"exists", "EXIS", since34, 0},
	OpGetData:              {"getData", "GETD", since34, 0},
	OpGetACL:               {"getACL", "GETA", since34, 0},
	OpGetChildren:          {"getChildren", "GETC", since34, 0},
	OpGetChildren2:         {"getChildren2", "GETC", since34, 0},
	OpGetAllChildrenNumber: {"getAllChildrenNumber", "GETACN", since36, beyondKeeper},
	OpGetEphemerals:        {"getEphemerals", "GETE", since36, beyondKeeper},
	OpMultiRead:            {"multiRead", "MLTR", since36, 0},
	OpWhoAmI:               {"whoAmI", "HOMI", since37, pathless | beyondKeeper},
	OpPing:                 {"ping", "PING", since34, pathless},
	OpAuth:                 {"auth", "", since34, pathless},
	OpSASL:                 {"sasl", "", since34, pathless},
	OpAddWatch:             {"addWatch", "ADDW", since36, 0},
	OpRemoveWatches:        {"removeWatches", "REMW", since35, 0},
	OpCheckWatches:         {"checkWatches", "CHKW", since35, 0},
	OpSetWatches:           {"setWatches", "SETW", since34, pathless},
	OpSetWatches2:          {"setWatches2", "STW2", since36, pathless},
}

func (op OpCode) is(trait traits) bool { return operations[op].is&trait != 0 }

// String returns ZooKeeper's name of the request, such as "getData", or "opcode(42)" for one the server does not know.
func (op OpCode) String() string {
	if known, ok := operations[op]; ok {
		return known.name
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

// knows reports whether a server of this version has the request.
func (v serverVersion) knows(op OpCode) bool { return v.atLeast(operations[op].since) }

// statName is NA for a write that has failed, which ZooKeeper sees before it comes to the name.
func statName(op OpCode, err code) string {
	if err != codeOK && op.is(forLeader) && op != OpSync {
		return "NA"
	}
	return operations[op].stat
}
