// SPDX-License-Identifier: Apache-2.0

package gssapi

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
)

// profile is what files of the format of krb5.conf say, as MIT's Kerberos reads them. gokrb5 reads no included files, and refuses
// values that MIT accepts.
// The marks * of what later files must not change are passed over, since the first value counts.
type profile struct {
	values map[string][]string // by section, subsections and name, with separators between
}

const (
	separator  = "\x00"
	maxInclude = 16 // files that include others
)

// setting returns the key of a setting.
func setting(path ...string) string { return strings.Join(path, separator) }

// first returns the value that counts, "" for none.
func (p *profile) first(path ...string) string {
	values := p.values[setting(path...)]
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// below returns the next parts of all settings below a section, sorted.
func (p *profile) below(section string) []string {
	found := make(map[string]bool)
	for key := range p.values {
		if rest, ok := strings.CutPrefix(key, section+separator); ok {
			name, _, _ := strings.Cut(rest, separator)
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// readProfile reads the files of a path as in KRB5_CONFIG, of which at least one must exist. What the first says counts.
func readProfile(paths string) (*profile, error) {
	p := &profile{values: make(map[string][]string)}
	missing, some := error(nil), false
	for _, path := range filepath.SplitList(paths) {
		err := p.read(path, 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		missing, some = cmp.Or(missing, err), some || err == nil
	}
	if !some {
		return nil, cmp.Or(missing, errors.New("an empty path of krb5.conf"))
	}
	return p, nil
}

// read adds what a file says.
func (p *profile) read(path string, depth int) error {
	if depth > maxInclude {
		return fmt.Errorf("%s: more than %d files include each other", path, maxInclude)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration could not be opened: %w", err)
	}
	if err := p.add(string(text), depth); err != nil {
		return fmt.Errorf("%s, %w", path, err)
	}
	return nil
}

// add adds what the text of a file says.
func (p *profile) add(text string, depth int) error {
	f := file{profile: p, depth: depth}
	for i, line := range strings.Split(text, "\n") {
		if err := f.line(strings.TrimSpace(line)); err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return nil
}

// readFolder adds what the files of a folder say whose names MIT takes. Distributions name folders that may be missing.
func (p *profile) readFolder(path string, depth int) error {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries { // sorted
		name := filepath.Join(path, entry.Name())
		if info, err := os.Stat(name); err != nil || info.IsDir() || !included.MatchString(entry.Name()) {
			continue
		}
		if err := p.read(name, depth); err != nil {
			return err
		}
	}
	return nil
}

var included = regexp.MustCompile(`^([A-Za-z0-9_-]+|[^.].*\.conf)$`)

// file is the state of reading one file.
type file struct {
	*profile
	depth    int
	path     []string // the section, and the subsections that are open
	awaiting bool     // the next line is the brace of the last of path
}

func (f *file) line(s string) error {
	directive, argument, _ := strings.Cut(strings.ReplaceAll(s, "\t", " "), " ")
	switch {
	case s == "", s[0] == '#', s[0] == ';':
		return nil
	case f.awaiting:
		f.awaiting = false
		if s[0] != '{' {
			return fmt.Errorf("%q, expected {", s)
		}
		return nil
	case directive == "include":
		return f.read(strings.TrimSpace(argument), f.depth+1)
	case directive == "includedir":
		return f.readFolder(strings.TrimSpace(argument), f.depth+1)
	case directive == "module":
		return fmt.Errorf("%q: modules are not supported, write what the module says into a file", s)
	case s[0] == '[':
		name, _, found := strings.Cut(s[1:], "]")
		if !found || len(f.path) > 1 {
			return fmt.Errorf("%q, expected a section outside of braces, such as [realms]", s)
		}
		f.path = []string{strings.TrimSpace(name)}
		return nil
	case len(f.path) == 0:
		return nil // a comment before the first section
	case s[0] == '}':
		if len(f.path) < 2 {
			return fmt.Errorf("%q without {", s)
		}
		f.path = f.path[:len(f.path)-1]
		return nil
	default:
		return f.relation(s)
	}
}

var comment = regexp.MustCompile(`\s[#;].*$`)

func (f *file) relation(s string) error {
	name, value, found := strings.Cut(s, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(comment.ReplaceAllString(value, ""))
	if !found || name == "" {
		return fmt.Errorf("%q, expected name = value", s)
	}
	name = strings.TrimSuffix(name, "*")
	if value == "" || value == "{" {
		f.path = append(slices.Clip(f.path), name)
		f.awaiting = value == ""
		return nil
	}
	if unquoted, err := strconv.Unquote(value); err == nil && value[0] == '"' {
		value = unquoted
	}
	key := setting(append(slices.Clip(f.path), strings.ToLower(name))...)
	f.values[key] = append(f.values[key], value)
	return nil
}

// config returns the settings that an exchange needs.
func (p *profile) config() (*config.Config, error) {
	c := config.New()
	l := &c.LibDefaults
	lib := func(name string) string { return p.first("libdefaults", name) }
	l.DefaultRealm = lib("default_realm")
	l.AllowWeakCrypto = isTrue(lib("allow_weak_crypto"), false)
	l.Canonicalize = isTrue(lib("canonicalize"), false)
	l.DNSLookupKDC = isTrue(lib("dns_lookup_kdc"), isTrue(lib("dns_fallback"), true))
	l.Clockskew = duration(lib("clockskew"), l.Clockskew)
	l.TicketLifetime = duration(lib("ticket_lifetime"), l.TicketLifetime)
	if n, err := strconv.Atoi(lib("udp_preference_limit")); err == nil && n >= 0 {
		l.UDPPreferenceLimit = min(n, maxUDPPreference)
	}
	for name, ids := range map[string]*[]int32{"default_tkt_enctypes": &l.DefaultTktEnctypeIDs, "default_tgs_enctypes": &l.DefaultTGSEnctypeIDs} {
		list := cmp.Or(lib(name), lib("permitted_enctypes"))
		if list == "" {
			continue
		}
		if *ids = encryptionTypes(list, *ids); len(*ids) == 0 {
			return nil, fmt.Errorf("%s in krb5.conf: no type of %q is supported, expected one such as aes256-cts-hmac-sha1-96", name, list)
		}
	}
	for _, domain := range p.below("domain_realm") {
		c.DomainRealm[domain] = p.first("domain_realm", domain)
	}
	for _, name := range p.below("realms") {
		realm, err := p.realm(name)
		if err != nil {
			return nil, err
		}
		c.Realms = append(c.Realms, realm)
	}
	return c, nil
}

// maxUDPPreference is the upper limit of udp_preference_limit, in bytes.
const maxUDPPreference = 32700

func (p *profile) realm(name string) (config.Realm, error) {
	realm := config.Realm{Realm: name}
	unsupported := ""
	for _, kdc := range p.values[setting("realms", name, "kdc")] {
		address := strings.TrimSpace(strings.TrimSuffix(kdc, "*"))
		for _, transport := range []string{"tcp/", "udp/"} {
			address = strings.TrimPrefix(address, transport)
		}
		if strings.Contains(address, "/") {
			unsupported = address
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), "88")
		}
		realm.KDC = append(realm.KDC, address)
	}
	if unsupported != "" && len(realm.KDC) == 0 {
		return realm, fmt.Errorf("kdc %q of the realm %s in krb5.conf: proxies and sockets are not supported, add a kdc = host:port", unsupported, name)
	}
	return realm, nil
}

// isTrue reads a boolean. What is none counts as missing, as for MIT.
func isTrue(s string, otherwise bool) bool {
	switch strings.ToLower(s) {
	case "y", "yes", "true", "t", "1", "on":
		return true
	case "n", "no", "false", "nil", "0", "off":
		return false
	default:
		return otherwise
	}
}

var (
	units = regexp.MustCompile(`^(?:(\d+)\s*d\s*)?(?:(\d+)\s*h\s*)?(?:(\d+)\s*m\s*)?(?:(\d+)\s*s?)?$`)
	clock = regexp.MustCompile(`^(?:(\d+)-)?(\d+):(\d+)(?::(\d+))?$`)
)

// duration reads a duration such as 3600, 1d 2h, 10:00 or 1-10:00:00. What is none counts as missing.
func duration(s string, otherwise time.Duration) time.Duration {
	parts := units.FindStringSubmatch(s)
	if parts == nil {
		parts = clock.FindStringSubmatch(s)
	}
	var d time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if parts == nil {
			break
		}
		n, _ := strconv.Atoi(cmp.Or(parts[i+1], "0")) // too many digits count as missing
		d += time.Duration(n) * unit
	}
	return cmp.Or(max(d, 0), otherwise)
}

// families are names for several encryption types.
var families = map[string][]string{
	"aes":  {"aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha1-96", "aes256-cts-hmac-sha384-192", "aes128-cts-hmac-sha256-128"},
	"des3": {"des3-cbc-sha1-kd"}, "des3-cbc-sha1": {"des3-cbc-sha1-kd"}, "des3-hmac-sha1": {"des3-cbc-sha1-kd"}, "rc4": {"arcfour-hmac"},
}

// encryptionTypes reads a list of encryption types, and passes over those that are not supported.
func encryptionTypes(list string, defaults []int32) (ids []int32) {
	for _, name := range strings.FieldsFunc(strings.ToLower(list), func(r rune) bool { return r == ' ' || r == '\t' || r == ',' }) {
		name, removed := strings.CutPrefix(name, "-")
		name = strings.TrimPrefix(name, "+")
		var named []int32
		if name == "default" {
			named = defaults
		}
		for _, member := range append(families[name], name) {
			if id := etypeID.EtypeSupported(member); id != 0 {
				named = append(slices.Clip(named), id)
			}
		}
		for _, id := range named {
			ids = slices.DeleteFunc(ids, func(other int32) bool { return removed && other == id })
			if !removed && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// cachePath returns the file of a credential cache: the given one, or that of KRB5CCNAME or of krb5.conf.
func cachePath(path string, p *profile) (string, error) {
	from := "it"
	if path == "" {
		from = "KRB5CCNAME"
		path = os.Getenv(from)
	}
	if path == "" {
		from = "default_ccache_name in krb5.conf"
		path = expand(p.first("libdefaults", "default_ccache_name"))
	}
	if path == "" {
		path = fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())
	}
	kind, name, found := strings.Cut(path, ":")
	switch {
	case !found || filepath.IsAbs(path):
		return path, nil
	case kind == "FILE":
		return name, nil
	default:
		return "", fmt.Errorf("credential cache %q, expected a file: other kinds are not read, and %s names a cache of the kind %s; "+
			"run kinit -c FILE:/path and give that path, or use Keytab", path, from, kind)
	}
}

// expand replaces the parameters of a path in krb5.conf.
func expand(path string) string {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	uid := strconv.Itoa(os.Getuid())
	return strings.NewReplacer("%{uid}", uid, "%{USERID}", uid, "%{euid}", strconv.Itoa(os.Geteuid()),
		"%{username}", name, "%{TEMP}", os.TempDir(), "%{null}", "").Replace(path)
}
