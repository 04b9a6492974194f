// SPDX-License-Identifier: Apache-2.0

package wire

// The opcodes of requests, from ZooKeeper's ZooDefs.OpCode.
const (
	OpCreate          = 1 // within a transaction; its result has no Stat
	OpDelete          = 2
	OpExists          = 3
	OpGetData         = 4
	OpSetData         = 5
	OpGetACL          = 6
	OpSetACL          = 7
	OpGetChildren     = 8
	OpSync            = 9
	OpPing            = 11
	OpGetChildren2    = 12 // with the Stat
	OpCheck           = 13
	OpMulti           = 14
	OpCreate2         = 15 // with the Stat
	OpReconfig        = 16
	OpRemoveWatches   = 18
	OpCreateContainer = 19
	OpCreateTTL       = 21
	OpMultiRead       = 22
	OpAuth            = 100
	OpSASL            = 102
	OpGetEphemerals   = 103
	OpSetWatches2     = 105 // since 3.6, with persistent watches
	OpAddWatch        = 106
	OpWhoAmI          = 107 // since 3.7
	OpCloseSession    = -11
)

// The xids that are not the numbers of requests.
const (
	XidNotification = -1
	XidPing         = -2
	XidAuth         = -4
)

// The error codes of replies, from ZooKeeper's KeeperException.Code.
const (
	CodeSystemError            = -1
	CodeRuntimeInconsistency   = -2
	CodeDataInconsistency      = -3
	CodeConnectionLoss         = -4
	CodeMarshallingError       = -5
	CodeUnimplemented          = -6
	CodeOperationTimeout       = -7
	CodeBadArguments           = -8
	CodeUnknownSession         = -12
	CodeNewConfigNoQuorum      = -13
	CodeReconfigInProgress     = -14
	CodeAPIError               = -100
	CodeNoNode                 = -101
	CodeNoAuth                 = -102
	CodeBadVersion             = -103
	CodeNoChildrenForEphemeral = -108
	CodeNodeExists             = -110
	CodeNotEmpty               = -111
	CodeSessionExpired         = -112
	CodeInvalidCallback        = -113
	CodeInvalidACL             = -114
	CodeAuthFailed             = -115
	CodeSessionMoved           = -118
	CodeNotReadOnly            = -119
	CodeEphemeralOnLocal       = -120
	CodeNoWatcher              = -121
	CodeRequestTimeout         = -122
	CodeReconfigDisabled       = -123
	CodeSASLRequired           = -124
	CodeQuotaExceeded          = -125
	CodeThrottled              = -127
)

// Lengths in bytes of what every frame has.
const (
	LengthSize    = 4
	RequestHeader = 8
	ReplyHeader   = 16
	PasswordSize  = 16
)
