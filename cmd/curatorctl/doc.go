// SPDX-License-Identifier: Apache-2.0

// Command curatorctl shows and changes the contents of a ZooKeeper ensemble: locks with their holders and
// waiters, servers, sessions, and znodes. It also runs commands under locks, as flock(1) does.
//
//	go install github.com/gocurator/curator/cmd/curatorctl@latest
//	docker run --rm ghcr.io/gocurator/curatorctl -servers zk1:2181 locks # instead; cmd/curatorctl/Dockerfile builds it
//	curatorctl -servers zk1:2181,zk2:2181 locks
//	curatorctl lock show /locks/report
//	curatorctl lock run -w 30s /locks/report -- ./report.sh
//	curatorctl jobs /cron
//
// "curatorctl help" lists the verbs, and "curatorctl help VERB" the flags of one. Arguments
// after -- are never flags: curatorctl set /offset -- -5.
//
// # Servers and credentials
//
// Flags override the environment. A credential is never a flag, because other users of the machine can see
// flags.
//
//	-servers, CURATOR_SERVERS          host:port,..., with a chroot at the end; default 127.0.0.1:2181
//	-tls, CURATOR_TLS=1                connect with TLS; 0 or -tls=false does not
//	-ca, CURATOR_CA                    file with the certificates that sign the servers'
//	-cert, -key, CURATOR_CERT, _KEY    files with the certificate and key of this client
//	-server-name, CURATOR_SERVER_NAME  name in the servers' certificates
//	CURATOR_AUTH                       scheme:credential, such as digest:user:password
//	CURATOR_SASL                       digest-md5:user:password
//	-sasl-file, CURATOR_SASL_FILE      file with the same, or a JAAS file
//	-sasl-keytab, CURATOR_SASL_KEYTAB  file with the key of a principal of Kerberos
//	-sasl-principal, _PRINCIPAL        name of that principal, such as reports@EXAMPLE.COM
//	-sasl-cache, CURATOR_SASL_CACHE    file with tickets of kinit, or default
//	-sasl-server, CURATOR_SASL_SERVER  principal of all servers; default zookeeper/ and the host in -servers
//
// Kerberos reads krb5.conf, KRB5_CONFIG and KRB5CCNAME as kinit does; package gssapi says what counts. With -sasl-server canonical,
// the hosts come from the name service, as in Java.
//
// A JAAS file needs a section Client with one login module. Krb5LoginModule has useKeyTab, keyTab and principal, or useTicketCache
// and ticketCache. DigestLoginModule has username and password. Other options are passed over.
//
// A certificate, a key or a server name turns TLS on, unless -tls=false turns it off. An attempt to
// connect is given up after -timeout, by default 15 seconds. A verb is given up after -timeout too, unless its
// time depends on its input or on the size of a subtree.
//
// The default policy of lock run and elect writes heartbeats, which needs permission to create znodes at the
// root. -policy session writes none.
//
// # Running commands
//
// The command of lock run and elect has the terminal, the descriptors and the ignored signals of
// curatorctl. It also has its environment, with the credentials in it. It is in the process group
// of curatorctl, so job control, prompts on /dev/tty and pagers work as under flock(1). A job that
// is stopped while it has the lock keeps the lock. curatorctl passes signals on that it alone
// receives. SIGTERM, SIGINT, SIGHUP and SIGQUIT go to all processes of the command, and SIGUSR1,
// SIGUSR2 and SIGCONT to the command itself.
//
// With -v, lock run and elect print how many contenders stand before them, each time that they learn another number.
//
// When the command exits, curatorctl kills the processes that it has left behind, including daemons, before it
// releases the lock. On Linux it finds all such processes. On other systems it does not find processes that have
// left the process group.
//
// # Guards
//
// A process that is killed leaves its locks held until its session times out. guard ends such sessions at once, on
// Linux. The processes register their sessions, see framework.WithGuard:
//
//	curatorctl guard -- ./worker                    # the worker and all that it starts, as under lock run
//	curatorctl guard -socket /run/worker/guard/sock # all processes of this user that name the socket
//
// The guard connects to the servers that a session names, with the credentials of its own flags. It ends a session only when
// the kernel says that the process is gone, and the session of lock run and elect only when all processes of the command have
// ended, too. A process that is stopped, traced or frozen, or that has lost its
// connection to the guard, keeps its session. So do all processes when the guard itself is stopped, killed or restarted: they
// register again when there is a guard. The socket and its folder are for one user, and the guard writes no core file.
//
// A process that is checkpointed and killed is gone, too. Do not restore it: its session has ended.
// CRIU refuses to checkpoint a process with a guard, unless it is told otherwise (--ext-unix-sk).
//
// # Labels
//
// lock run and elect write a label into ZooKeeper. All clients that may read the lock see it. The
// label is the base name of the command, without its arguments, which may be secret. -label sets
// another label.
//
// # What servers say of their clients
//
// explain, sessions, doctor and contention ask the servers whether clients are alive, with the four-letter words cons, dump, conf and mntr.
// ZooKeeper as it comes allows only srvr. Write this line into zoo.cfg of each server, and restart it:
//
//	4lw.commands.whitelist=srvr,mntr,conf,cons,dump
//
// Without it they ask the admin server at the port 8080. Where that does not answer either, it is not known whether a client
// is alive, and these verbs and lock show exit with 3. A server that refuses the connection has no clients. Of a server that does not answer, explain asks
// the leader twice whether it has heard the clients, which takes half of a session timeout at most.
//
// # Output
//
// -o table is for people, -o wide has more columns, and -o json is for scripts. In JSON, keys begin in lower case,
// sessions are text that begins with 0x, and times are in RFC 3339. Tables escape unprintable characters from
// ZooKeeper and cut long cells; -o wide cuts them later. The verb get writes data as it is.
//
// An access control list is scheme:id:perms,... with a backslash before each comma and backslash
// of an id. In JSON it is an array of objects with scheme, id and perms. zkCli sets such lists.
//
// # Exit status
//
//	0    done
//	1    failed: there is no such znode, say
//	2    locks -waiting-longer, partitions -moving, explain, deadlocks or doctor has found some
//	3    explain, lock show, deadlocks, doctor, sessions or contention cannot tell, and says what would make it known
//	64   the command line is wrong, or -yes is missing
//	69   no server can be reached, or none has a quorum
//	70   the lock was lost while the command ran
//	75   the lock was not acquired: it is held, or the wait has ended; lock run -E sets another
//	77   the server has denied permission, or refused a credential
//	124  lock run -max-hold has ended the command
//	126  the command cannot be run, 127 it was not found
//
// Otherwise lock run exits with the status of its command. If SIGINT, SIGTERM or SIGHUP has ended
// the command, or a verb, it ends curatorctl, too. So Ctrl-C ends a script that calls lock run in a
// loop, as it does with flock(1). After another signal n the status is 128+n. If no server confirms
// the end of the session, curatorctl says so on the standard error. The status stays the same.
//
// # Changing things
//
// Verbs are read-only unless their names say otherwise. The destructive verbs need -yes: rm -r, lock break
// and lock revoke. lock revoke replaces the data of the holder's node, as Curator does, so the name of
// the holder is lost.
//
// When a signal ends rm -r, it says how many znodes it has deleted. A second signal kills it.
package main
