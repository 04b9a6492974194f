// SPDX-License-Identifier: Apache-2.0

// Package schedule runs jobs on a schedule in a fleet of replicas. Each tick of a job runs to success at most once in
// the fleet, in order, and the ticks that no replica could run in time are run later. The package is experimental
// until version 0.2: its API may change.
//
// # Run jobs
//
//	s, err := schedule.New(client, "/cron",
//		schedule.Job{Name: "report", Schedule: schedule.Daily(3, 0, berlin), Run: report},
//		schedule.Job{Name: "sync", Schedule: schedule.Every(time.Minute), Run: sync, Deadline: 50 * time.Second})
//	if err != nil {
//		return err
//	}
//	return s.Run(ctx)
//
// Each replica runs the same program. The replicas divide the jobs as package partition divides partitions, so a
// hundred jobs on three replicas are not all on one.
//
// # Schedules
//
// A [Schedule] computes the next tick from the last one, in UTC. [Every] and [Daily] are here. The schedules of
// robfig/cron fit too:
//
//	weekdays, err := cron.ParseStandard("CRON_TZ=Europe/Berlin 30 6 * * 1-5")
//	job := schedule.Job{Name: "greet", Schedule: weekdays, Run: greet}
//
// At a change of the clocks they have two traps, for a time such as 02:30 in Berlin. In spring the day without
// that time has no tick. In autumn the day that has it twice has two ticks. [Daily] says what it does on such days.
//
// The ticks of a new job begin when the first replica takes it over. When the schedule of a job changes with a
// release, the ticks of the new schedule begin with the next tick of the old one, or at the release if that is
// earlier. So a monthly job that becomes a job of each minute does not run the minutes of the month.
//
// # What happens when
//
//   - No replica ran a tick in time: all were down, the servers were, or the job was paused. CatchUp of the [Job]
//     says which of these ticks are run late: all, which is the default, the last one, or none.
//   - A run takes longer than the interval. Overlap says what becomes of the ticks that are due meanwhile. [Skip],
//     the default, drops them, [Queue] runs some of them afterwards, and [Cancel] ends the run.
//   - A run fails. It is repeated as Retry says, until its Deadline. Then the tick has failed, which is logged, counted and
//     shown, and the next tick comes.
//   - A replica dies in a run. Another one runs the tick again when the session of the dead one has expired. With
//     AtMostOnce the tick counts as failed.
//   - The job moves to another replica, or the program ends. The run under way is waited for. If it fails and may be
//     repeated, the next replica does that. With GiveUp its context ends, and the next replica runs the tick again.
//   - A release has other jobs than the one before it. Both run side by side: a job that both know has one runner,
//     and a job that one of them knows runs there. A replica that starts deletes what dead releases have left of how
//     they divided their jobs.
//
// # Operators
//
// [List] shows where each job stands, with its last ten runs. [Pause], [Resume], [SkipNext] and [RunNow] are orders, which
// the replica that has the job follows. They are "curatorctl jobs PATH" and "curatorctl job pause PATH JOB" on the command
// line. "curatorctl serve" shows the jobs in a browser. A job that no replica knows any more is listed as such, until its znode jobs/<name> is deleted.
//
// # What is promised
//
// The state of a job is a znode. Only the holder of the job's lease writes it, in a transaction that checks the lease.
// So a replica that was paused cannot write over its successor. A run counts as a success when the state says so.
//
//   - At most one run of a tick succeeds.
//   - Ticks run in order, one after the other.
//   - While a replica knows the job, each tick is run or dropped as the job says. A tick is late by a session timeout when the
//     replica that had the job was killed.
//
// A function may be called again for a tick that it has done, if its replica dies or loses the lease before the success
// is written. [Tick] has the token of the lease, by which a store can refuse late writes: see package fence. Data in ZooKeeper
// can be written with the lease, as [locks.Lease.Transact] does.
//
// Servers that come back from a backup have forgotten runs, and their ticks run again.
//
// # Clocks
//
// A tick is a scheduled time. A replica whose clock is late runs its ticks late, and no two replicas run a tick
// because their clocks differ. Each write of a state shows the servers' time. If a replica's clock differs from it by more than
// [ClockTolerance], a tick runs when both clocks say that it is due, since either may be wrong, and the log says so. The ticks of
// a new job then begin by the clock that is ahead.
//
// # What it costs
//
// A tick takes two requests: its begin and its end are written, each in a transaction. A repetition takes one more. A run that
// is longer than the interval takes three more: they show whether the job was paused, before its ticks are dropped.
// A replica whose jobs are not due makes no request. A replica that takes jobs over makes seven for each of them. One
// replica makes ten for the plan of all, and reads two znodes of each replica.
//
// A thousand jobs on ten replicas, each with a tick in ten seconds, one ZooKeeper 3.8 server and all replicas on two
// processors (TestScaleOfAThousandJobs, with the size in an environment variable):
//
//	ticks         requests for a tick   late: median, p99   heap of a replica
//	spread        2.00                  2 ms, 61 ms         2.7 MB
//	all at once   2.00                  258 ms, 622 ms      3.6 MB
//
// A lease outlasts a lost connection until the session ends, since the servers check each write. This holds for a client
// with [framework.StandardErrorPolicy], too. A client with [framework.QuorumErrorPolicy] keeps that policy.
//
// # Metrics
//
// A client made WithMeterProvider measures its jobs. Only framework.WithPathAttribute adds the attribute curator.path,
// the path of the fleet. With a tracer provider each attempt is a span, "run job", with the job and the tick.
//
//	instrument                   kind, unit
//	curator.schedule.running     updowncounter {run}
//	curator.schedule.missed      counter {tick}
//	curator.schedule.lateness    histogram s
//	curator.schedule.duration    histogram s
//
// Missed counts the ticks that CatchUp and Overlap have dropped. Lateness and duration have one value for each run that
// is over. Duration has the attribute curator.schedule.outcome, so its count is the number of runs by outcome.
package schedule
