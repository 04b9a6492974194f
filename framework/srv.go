// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// srvAge is how old an answer is when the next question is asked.
	srvAge = 10 * time.Second

	srvLimit = 5 * time.Second // of one question
)

// SRVEnsembleProvider is an [EnsembleProvider] that finds the servers by the SRV records of a DNS
// name, and asks again. It serves any number of clients.
//
// A client asks its provider before each round of attempts to connect. If the newest answer is more
// than 10 seconds old by then, the provider asks DNS in the background, and the next round has the
// new answer. So a client that has lost its server finds servers that have moved. The provider asks
// nothing while its clients are connected. An answer that fails, or in which no record names a server,
// changes nothing. Records that name no server are left out of the others. Both are logged by
// [slog.Default], once until the reason changes.
// Priorities and weights are not used; see [WithServerOrder].
type SRVEnsembleProvider struct {
	resolver     *net.Resolver
	name, chroot string

	mu     sync.Mutex
	now    string
	at     time.Time
	asking bool
	logged string // the newest reason, "" if all records were used
}

// NewSRVEnsembleProvider asks for the records of a name, such as "_zookeeper._tcp.example.com", and
// returns a provider of the servers. The chroot is "" or a path, which all answers have. A nil
// resolver is net.DefaultResolver. It blocks until there is an answer, and until ctx ends at most.
func NewSRVEnsembleProvider(ctx context.Context, resolver *net.Resolver, name, chroot string) (*SRVEnsembleProvider, error) {
	if ctx == nil {
		return nil, fmt.Errorf("framework: SRV records of %q: %w", name, errNilContext)
	}
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	p := &SRVEnsembleProvider{resolver: resolver, name: name, chroot: chroot}
	if err := p.ask(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// ConnectionString returns the servers by the newest answer. It does not block.
func (p *SRVEnsembleProvider) ConnectionString() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asking && time.Since(p.at) > srvAge {
		p.asking = true
		go p.askAgain()
	}
	return p.now
}

func (p *SRVEnsembleProvider) askAgain() {
	ctx, cancel := context.WithTimeout(context.Background(), srvLimit)
	defer cancel()
	if err := p.ask(ctx); err != nil {
		p.complain(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking = false
}

func (p *SRVEnsembleProvider) ask(ctx context.Context) error {
	_, records, err := p.resolver.LookupSRV(ctx, "", "", p.name)
	if err == nil && len(records) == 0 {
		err = &net.DNSError{Err: "no SRV records", Name: p.name, IsNotFound: true}
	}
	var servers []string
	for _, r := range records { // beside an error these are the ones whose names are valid
		server := net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port)))
		if _, _, bad := parseConnectString(server); bad != nil { // such as the target ".", by which a domain says that it has no such service
			err = errors.Join(err, fmt.Errorf("target %q and port %d, expected a host and a port: %w", r.Target, r.Port, bad))
			continue
		}
		servers = append(servers, server)
	}
	if err != nil {
		err = fmt.Errorf("framework: SRV records of %q: %w", p.name, err)
	}
	if len(servers) == 0 {
		return err
	}
	slices.Sort(servers) // records come in random order, and that is no change
	now := strings.Join(slices.Compact(servers), ",") + p.chroot
	if _, _, err := parseConnectString(now); err != nil {
		return err
	}
	p.complain(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.at = now, time.Now()
	return nil
}

// complain logs why some records, or all, are not used. An answer comes every few seconds while no server can be reached.
func (p *SRVEnsembleProvider) complain(why error) {
	text := ""
	if why != nil {
		text = why.Error()
	}
	p.mu.Lock()
	isNew := text != p.logged
	p.logged = text
	p.mu.Unlock()
	if isNew && text != "" {
		slog.Default().Warn("SRV records are left out", "name", p.name, "error", why)
	}
}
