// SPDX-License-Identifier: Apache-2.0

package zkserver

// handlers serve the requests of connections that have a session. A handler reads the request's fields, does what the request
// asks and writes the body of the reply. A body written before an error is returned is dropped.
var handlers = map[OpCode]func(*call) code{
	OpCloseSession:         (*call).closeSession,
	OpCreate:               (*call).create,
	OpCreate2:              (*call).create,
	OpCreateContainer:      (*call).create,
	OpCreateTTL:            (*call).create,
	OpDelete:               (*call).delete,
	OpDeleteContainer:      (*call).deleteContainer,
	OpSetData:              (*call).setData,
	OpSetACL:               (*call).setACL,
	OpCheck:                (*call).check,
	OpMulti:                (*call).multi,
	OpReconfig:             (*call).reconfig,
	OpSync:                 (*call).sync,
	OpExists:               (*call).exists,
	OpGetData:              (*call).getData,
	OpGetACL:               (*call).getACL,
	OpGetChildren:          (*call).getChildren,
	OpGetChildren2:         (*call).getChildren,
	OpGetAllChildrenNumber: (*call).getAllChildrenNumber,
	OpGetEphemerals:        (*call).getEphemerals,
	OpMultiRead:            (*call).multiRead,
	OpWhoAmI:               (*call).whoAmI,
	OpPing:                 (*call).ping,
	OpAuth:                 (*call).auth,
	OpSASL:                 (*call).sasl,
	OpAddWatch:             (*call).addWatch,
	OpRemoveWatches:        (*call).removeWatches,
	OpCheckWatches:         (*call).checkWatches,
	OpSetWatches:           (*call).setWatches,
	OpSetWatches2:          (*call).setWatches,
}
