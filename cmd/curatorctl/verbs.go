// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/recipes/x/schedule"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case keepVerb:
			os.Exit(keep(verbs()))
		case guardVerb:
			os.Exit(guard())
		}
	}
	signals := make(chan os.Signal, 16)
	catch(signals, forwarded...)
	p := program{
		verbs: verbs(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv,
		signals: signals, uncatch: func() { signal.Stop(signals) },
	}
	err := p.attempt(context.Background(), os.Args[1:])
	if s := signalOf(err); s != 0 {
		die(s) // so that a script that this program is part of ends, too
	}
	os.Exit(statusOf(err))
}

// verbs are what the command can do, in the order of its help.
func verbs() []*verb {
	return []*verb{
		{name: "locks", args: "[PATH]", most: 1, lasts: true, about: "list the locks and elections below a path", flags: verbLocks},
		{name: "explain", args: "PATH", least: 1, most: 1, lasts: true, about: "say why a lock is stuck, and what helps", flags: verbExplain},
		{name: "deadlocks", args: "[PATH]", most: 1, lasts: true, about: "list the clients that wait for each other in a cycle", flags: verbDeadlocks},
		{name: "contention", args: "[PATH]", most: 1, lasts: true, about: "watch the locks below a path, and report turns, waits, holds and losses", flags: verbContention},
		{name: "lock show", args: "PATH", least: 1, most: 1, about: "show the queue of a lock, and whether its owners are alive", flags: verbLockShow},
		{name: "lock run", args: "PATH -- COMMAND...", least: 1, most: 1, lasts: true, verbatim: true, about: "run a command under a lock", flags: verbLockRun},
		{name: "lock revoke", args: "PATH", least: 1, most: 1, about: "ask the holders at a path, or the owner of a node, to give way", flags: verbLockRevoke},
		{name: "lock break", args: "NODE", least: 1, most: 1, about: "delete the node of a contender", flags: verbLockBreak},
		{name: "elect", args: "PATH [-- COMMAND...]", least: 1, most: 1, lasts: true, verbatim: true, about: "run a command while it leads an election", flags: verbElect},
		{name: "guard", args: "[-- COMMAND...]", lasts: true, verbatim: true, about: "end the sessions of processes that are gone, at once", flags: verbGuard},
		{name: "partitions", args: "PATH", least: 1, most: 1, lasts: true, about: "show which member has each partition of a group, and which partitions move", flags: verbPartitions},
		{name: "partitions drain", args: "PATH MEMBER", least: 2, most: 2, about: "have a member give up its partitions, one after the other", flags: verbPartitionOrder("drained", true, partition.Drain)},
		{name: "partitions exclude", args: "PATH PARTITION", least: 2, most: 2, about: "keep a partition from all members", flags: verbPartitionOrder("excluded", false, partition.Exclude)},
		{name: "partitions pin", args: "PATH PARTITION [MEMBER]", least: 2, most: 3, about: "give a partition to a member, or without MEMBER to any again", do: verbPartitionPin},
		{name: "jobs", args: "PATH", least: 1, most: 1, lasts: true, about: "list the jobs of a fleet, with their last and next ticks", do: verbJobs},
		{name: "job history", args: "PATH JOB", least: 2, most: 2, about: "list the last runs of a job", do: verbJobHistory},
		{name: "job run", args: "PATH JOB", least: 2, most: 2, about: "ask for a run of a job at once", do: verbJobOrder("asked for a run of", schedule.RunNow)},
		{name: "job pause", args: "PATH JOB", least: 2, most: 2, about: "pause a job", do: verbJobOrder("paused", schedule.Pause)},
		{name: "job resume", args: "PATH JOB", least: 2, most: 2, about: "end the pause of a job", do: verbJobOrder("resumed", schedule.Resume)},
		{name: "job skip", args: "PATH JOB", least: 2, most: 2, about: "skip the next tick of a job", do: verbJobSkip},
		{name: "ensemble", apart: true, about: "show all servers, and whether they have a quorum", do: verbEnsemble},
		{name: "doctor", args: "[PATH]", most: 1, lasts: true, apart: true, about: "look for what will hurt: limits, sizes, timeouts, clocks and versions", flags: verbDoctor},
		{name: "sessions", about: "list the sessions with their clients, servers and ephemeral znodes", do: verbSessions},
		{name: "whoami", about: "list the identities that a server has for this command", do: verbWhoAmI},
		{name: "ls", args: "[PATH]", most: 1, about: "list the children of a znode", do: verbLs},
		{name: "find", args: "[PATH]", most: 1, lasts: true, about: "list the znodes of a subtree that match", flags: verbFind},
		{name: "stat", args: "PATH", least: 1, most: 1, about: "show the Stat of a znode", do: verbStat},
		{name: "get", args: "PATH", least: 1, most: 1, about: "write the data of a znode to the standard output", do: verbGet},
		{name: "set", args: "PATH [DATA|-]", least: 1, most: 2, lasts: true, about: "set the data of a znode, from the standard input without DATA", flags: verbSet},
		{name: "create", args: "PATH [DATA|-]", least: 1, most: 2, lasts: true, numbers: true, about: "create a znode, with the standard input for -", flags: verbCreate},
		{name: "rm", args: "PATH...", least: 1, most: -1, lasts: true, about: "delete znodes", flags: verbRm},
		{name: "acl", args: "PATH", least: 1, most: 1, about: "show an access control list", do: verbACL},
		{name: "serve", args: "[PATH]", most: 1, lasts: true, about: "show the locks below a path in a browser", flags: verbServe},
		{name: "version", offline: true, about: "show the version of this command", do: verbVersion},
	}
}
