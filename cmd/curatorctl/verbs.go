package main

// verbs are what the command can do, in the order of its help.
func verbs() []*verb {
	return []*verb{
		{name: "locks", args: "[PATH]", most: 1, follows: true, about: "list the locks and elections below a path", flags: verbLocks},
		{name: "lock show", args: "PATH", least: 1, most: 1, about: "show the queue of a lock, and whether its owners are alive", flags: verbLockShow},
		{name: "lock run", args: "PATH -- COMMAND...", least: 1, most: 1, follows: true, verbatim: true, about: "run a command under a lock", flags: verbLockRun},
		{name: "lock revoke", args: "PATH", least: 1, most: 1, about: "ask the holders at a path, or the owner of a node, to give way", flags: verbLockRevoke},
		{name: "lock break", args: "NODE", least: 1, most: 1, about: "delete the node of a contender", flags: verbLockBreak},
		{name: "elect", args: "PATH [-- COMMAND...]", least: 1, most: 1, follows: true, verbatim: true, about: "run a command while it leads an election", flags: verbElect},
		{name: "ensemble", about: "show all servers, and whether they have a quorum", flags: verbEnsemble},
		{name: "sessions", about: "list the sessions, where they come from and what they own", flags: verbSessions},
	}
}
