// SPDX-License-Identifier: Apache-2.0

package main

// campaignRecord is what is saved of a campaign beside the histories, and all that a
// replay knows.
type campaignRecord struct {
	Seed     uint64        `json:"seed"`
	Versions []string      `json:"versions"`
	Start    int64         `json:"start"`
	End      int64         `json:"end"`
	Duration int64         `json:"duration"`         // how long there were faults, in all rounds together
	Soak     bool          `json:"soak,omitempty"`   // without faults
	Shared   bool          `json:"shared,omitempty"` // the machine has other work: times are measured, and have no limit
	Kinds    []kindRecord  `json:"kinds"`            // of faults, that were asked for
	Rounds   []roundRecord `json:"rounds"`
}

// kindRecord is a kind of fault.
type kindRecord struct {
	Fault  string `json:"fault"` // its id, such as N4
	Name   string `json:"name"`
	Cannot string `json:"cannot,omitempty"` // why it cannot be done on this machine
}

// roundRecord is one ensemble's life: a campaign has several, one after the other.
type roundRecord struct {
	Folder         string        `json:"folder"`         // of the histories, below the report's folder
	Setup          string        `json:"setup"`          // "tls, fsync"
	ZooKeeper      string        `json:"zookeeper"`      // the version, as a server says
	SessionTimeout int64         `json:"sessionTimeout"` // nanoseconds
	Tick           int64         `json:"tick"`
	Start          int64         `json:"start"`
	WallOffset     int64         `json:"wallOffset,omitempty"` // what the wall clock is ahead of the monotonic one
	Calm           int64         `json:"calm"`                 // when the last fault was undone
	End            int64         `json:"end"`
	Locks          []lockSpec    `json:"locks"`
	Clients        []string      `json:"clients"` // all processes that were started
	Faults         []faultRecord `json:"faults"`

	// Sets are the final contents of the guarded sets, by the name of the lock.
	Sets map[string][]string `json:"sets"`

	// Left is what the servers had when all workers had stopped but their
	// sessions were there, and what they had when the sessions were closed.
	Left  leftovers `json:"left"`
	After leftovers `json:"after"`

	// Stuck are the locks that could not be had in the end, each after the client that
	// tried: "c1.2 mutex-standard".
	Stuck []string `json:"stuck"`
}

// leftovers are counted by the servers themselves.
type leftovers struct {
	Ephemerals int `json:"ephemerals"` // that a majority of the servers has
	Watches    int `json:"watches"`
	LockNodes  int `json:"lockNodes"` // below the folders of all locks

	// Nodes are the paths of what Ephemerals and LockNodes count.
	Nodes []string `json:"nodes,omitempty"`

	// Phantoms are the paths of ephemeral nodes that one server has and the others have not.
	Phantoms []string `json:"phantoms,omitempty"`
}

// none reports whether nothing is left.
func (l leftovers) none() bool {
	return l.Ephemerals == 0 && l.Watches == 0 && l.LockNodes == 0 && len(l.Phantoms) == 0
}
