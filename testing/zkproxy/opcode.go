// SPDX-License-Identifier: Apache-2.0

package zkproxy

// Opcodes, for comparison with [Frame.Op]. Their source is ZooKeeper's ZooDefs.OpCode.
const (
	OpCreate               int32 = 1
	OpDelete               int32 = 2
	OpExists               int32 = 3
	OpGetData              int32 = 4
	OpSetData              int32 = 5
	OpGetACL               int32 = 6
	OpSetACL               int32 = 7
	OpGetChildren          int32 = 8
	OpSync                 int32 = 9
	OpPing                 int32 = 11
	OpGetChildren2         int32 = 12
	OpCheck                int32 = 13
	OpMulti                int32 = 14
	OpCreate2              int32 = 15
	OpReconfig             int32 = 16
	OpCheckWatches         int32 = 17
	OpRemoveWatches        int32 = 18
	OpCreateContainer      int32 = 19
	OpCreateTTL            int32 = 21
	OpMultiRead            int32 = 22
	OpAuth                 int32 = 100
	OpSetWatches           int32 = 101
	OpSASL                 int32 = 102
	OpGetEphemerals        int32 = 103
	OpGetAllChildrenNumber int32 = 104
	OpSetWatches2          int32 = 105
	OpAddWatch             int32 = 106
	OpWhoAmI               int32 = 107
	OpCloseSession         int32 = -11
)

// opsWithPath are the operations whose request begins with a path.
var opsWithPath = map[int32]bool{
	OpCreate: true, OpDelete: true, OpExists: true, OpGetData: true, OpSetData: true, OpGetACL: true, OpSetACL: true,
	OpGetChildren: true, OpSync: true, OpGetChildren2: true, OpCheck: true, OpCreate2: true, OpCheckWatches: true,
	OpRemoveWatches: true, OpCreateContainer: true, OpCreateTTL: true, OpGetEphemerals: true, OpGetAllChildrenNumber: true,
	OpAddWatch: true,
}
