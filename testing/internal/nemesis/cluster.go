// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/ensemble"
)

// The timing of the servers, and of the sessions: above what StandardErrorPolicy asks
// for, which the client would warn of otherwise.
const (
	tick           = 500 * time.Millisecond
	syncLimit      = 2
	sessionTimeout = 3 * time.Second
)

// clientsLog is the file that gets what client processes say, in the folder of a round.
const clientsLog = "clients.log"

// cluster is what a round works with: servers, client processes on hosts of their own, and an administrator
// that creates the folders.
type cluster struct {
	folder    string
	setup     setup
	ensemble  *ensemble.Ensemble
	network   *ensemble.Network
	admin     *framework.Framework
	vandal    *framework.Framework // the same, but without rights in a guarded round
	adminHost *ensemble.Host
	locks     []lockSpec
	log       *os.File   // what client processes say
	clients   []*process // that run
	started   []string   // the names of all that ever did
}

// setup is how servers and clients of a round are set up.
type setup struct {
	clients int
	pause   time.Duration // between the turns of a worker, at most
	tls     bool
	guarded bool // only clients that present the credential may use the nodes
	fsync   bool
	frames  int // how often a fault of frames comes for once of any other; 0: there are no proxies that see frames
	seed    uint64
	locks   []lockSpec
	dir     string // for the servers' files
}

// startCluster starts everything. The folder gets the histories.
func startCluster(ctx context.Context, folder string, s setup) (c *cluster, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("nemesis: %w", err)
	}
	c = &cluster{folder: folder, setup: s, locks: s.locks}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.log, err = os.Create(filepath.Join(folder, clientsLog)); err != nil {
		return c, fmt.Errorf("nemesis: %w", err)
	}
	options := []ensemble.Option{
		ensemble.WithSize(3), ensemble.WithNetwork(), ensemble.WithTick(tick), ensemble.WithSyncLimit(syncLimit), ensemble.WithFsync(s.fsync),
	}
	if s.dir != "" {
		options = append(options, ensemble.WithDir(s.dir))
	}
	if s.tls {
		if err := certify(c.certificates(), []net.IP{{192, 0, 2, 1}, {192, 0, 2, 2}, {192, 0, 2, 3}}); err != nil {
			return c, err
		}
		options = append(options, ensemble.WithTLS(c.certificates(), c.certificates()))
	}
	if c.ensemble, err = ensemble.Start(ctx, options...); err != nil {
		return c, err
	}
	c.network = c.ensemble.Network()
	if err := c.prepare(ctx); err != nil {
		return c, err
	}
	return c, c.startClients()
}

func (c *cluster) certificates() string { return filepath.Join(c.folder, "certificates.pem") }

// prepare connects the administrator, from a host that no fault touches, and makes
// what has to be there.
func (c *cluster) prepare(ctx context.Context) (err error) {
	if c.adminHost, err = c.network.Join("administrator"); err != nil {
		return err
	}
	if c.vandal, err = c.connect(ctx); err != nil {
		return err
	}
	c.admin = c.vandal
	if c.setup.guarded {
		if c.admin, err = c.connect(ctx, guarded()...); err != nil {
			return err
		}
	}
	if err := c.admin.Mkdirs(ctx, "/nemesis/locks"); err != nil {
		return err
	}
	for _, spec := range c.locks {
		if !workloadOf(spec).exclusive {
			continue
		}
		for _, name := range spec.protects() {
			if err := setOf(c.admin, name).create(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// connect connects somebody on the administrator's host.
func (c *cluster) connect(ctx context.Context, options ...framework.Option) (*framework.Framework, error) {
	return framework.Connect(ctx, c.ensemble.ConnectString(), append(options, framework.WithDialer(c.adminHost.DialContext),
		framework.WithSessionTimeout(2*sessionTimeout), framework.WithServerTiming(tick, syncLimit),
		framework.WithRetryPolicy(retry.UntilElapsed(time.Minute, 100*time.Millisecond)))...)
}

// startClients starts a process on each of as many hosts.
func (c *cluster) startClients() error {
	random := rand.New(rand.NewPCG(c.setup.seed, 1))
	for i := range c.setup.clients {
		host, err := c.network.Join(fmt.Sprintf("client %d", i+1))
		if err != nil {
			return err
		}
		p, err := startProcess(clientConfig{
			Name: fmt.Sprintf("c%d.1", i+1), Servers: c.serversOf(i), SessionTimeout: sessionTimeout, Locks: c.share(i), Pause: c.setup.pause,
			Seed: random.Uint64(), History: filepath.Join(c.folder, fmt.Sprintf("c%d.1.jsonl", i+1)),
			Proxied: c.setup.frames > 0, Guarded: c.setup.guarded, Certificates: c.clientCertificates(),
		}, host, c.log)
		if err != nil {
			return err
		}
		c.clients = append(c.clients, p)
		c.started = append(c.started, p.config.Name)
	}
	return nil
}

func (c *cluster) clientCertificates() string {
	if c.setup.tls {
		return c.certificates()
	}
	return ""
}

// serversOf are the servers that a client knows. Every other client knows one only, so that
// it stays there when that server is cut off from the others.
func (c *cluster) serversOf(i int) []string {
	var addrs []string
	for _, s := range c.ensemble.Servers() {
		addr := s.Addr()
		if c.setup.tls {
			addr = s.SecureAddr()
		}
		addrs = append(addrs, addr)
	}
	if i%2 == 0 {
		return addrs
	}
	n := i / 2 % len(addrs)
	return addrs[n : n+1]
}

// share are the locks of a client: every other one, so that a lock has half of the
// clients, and with each policy those that know one server as well as those that know all.
func (c *cluster) share(i int) []lockSpec {
	var mine []lockSpec
	for n, spec := range c.locks {
		if (n+i/2)%2 == 0 {
			mine = append(mine, spec)
		}
	}
	return mine
}

// restartClient starts a client that was killed.
func (c *cluster) restartClient(i int) error {
	old := c.clients[i]
	config := old.config
	var number, run int
	if _, err := fmt.Sscanf(config.Name, "c%d.%d", &number, &run); err != nil {
		return fmt.Errorf("nemesis: client %s: %w", config.Name, err)
	}
	config.Name = fmt.Sprintf("c%d.%d", number, run+1)
	config.History = filepath.Join(c.folder, config.Name+".jsonl")
	config.Seed++
	p, err := startProcess(config, old.host, c.log)
	if err != nil {
		return err
	}
	c.clients[i] = p
	c.started = append(c.started, config.Name)
	return nil
}

// endClients has all clients close what they have open, and waits until they have ended.
func (c *cluster) endClients() error {
	_, err := orderAll(c.clients, order{Do: doClose})
	for _, p := range c.clients {
		err = errors.Join(err, p.end())
	}
	c.clients = nil
	return err
}

// syncTime is how long a fault waits at most for servers that catch up with the others.
const syncTime = 10 * time.Second

// awaitSync waits until the servers may be hurt without a loss that ZooKeeper itself causes.
func (c *cluster) awaitSync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTime)
	defer cancel()
	return c.ensemble.AwaitSync(ctx)
}

// close ends what still runs.
func (c *cluster) close() (err error) {
	for _, p := range c.clients {
		err = errors.Join(err, p.kill())
	}
	if c.vandal != nil {
		err = errors.Join(err, c.vandal.Close())
	}
	if c.admin != nil && c.admin != c.vandal {
		err = errors.Join(err, c.admin.Close())
	}
	if c.ensemble != nil {
		err = errors.Join(err, c.ensemble.Close())
	}
	if c.log != nil {
		err = errors.Join(err, c.log.Close())
	}
	return err
}
