// SPDX-License-Identifier: Apache-2.0

package gssapi

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/stretchr/testify/require"
)

const (
	aes256      = etypeID.AES256_CTS_HMAC_SHA1_96
	aes128      = etypeID.AES128_CTS_HMAC_SHA1_96
	aes256SHA2  = etypeID.AES256_CTS_HMAC_SHA384_192
	aes128SHA2  = etypeID.AES128_CTS_HMAC_SHA256_128
	des3        = etypeID.DES3_CBC_SHA1_KD
	rc4         = etypeID.RC4_HMAC
	unsupported = "des-cbc-md5"
)

// configOf returns the settings in a file.
func configOf(path string) (*config.Config, error) {
	p, err := readProfile(path)
	if err != nil {
		return nil, err
	}
	return p.config()
}

// TestKrb5ConfOfDistributions: the files that they install are read as MIT's Kerberos reads them, with the files that they include.
func TestKrb5ConfOfDistributions(t *testing.T) {
	for name, want := range map[string]struct {
		realm, cache    string
		kdcs            []string
		lookup          bool
		tkt, tgs        []int32
		udp             int
		lifetime, drift time.Duration
	}{
		"rhel9": {
			realm: "EXAMPLE.COM", cache: fmt.Sprintf("KEYRING:persistent:%d", os.Getuid()), lookup: true,
			kdcs: []string{"kdc1.example.com:88", "kdc2.example.com:1088"}, tkt: []int32{aes256SHA2, aes256}, tgs: []int32{aes256SHA2, aes256},
			lifetime: 26 * time.Hour, drift: 5 * time.Minute,
		},
		"freeipa": {realm: "IPA.EXAMPLE.COM", cache: fmt.Sprintf("KEYRING:persistent:%d", os.Getuid()), lookup: true, lifetime: 24 * time.Hour, drift: 5 * time.Minute},
		"sles": {
			realm: "SUSE.EXAMPLE.COM", cache: fmt.Sprintf("FILE:/tmp/sles_%d", os.Getuid()), lookup: true,
			kdcs: []string{"[2001:db8::1]:88", "192.0.2.1:88"}, udp: 1465, lifetime: 24 * time.Hour, drift: 5 * time.Minute,
		},
		"ambari": {
			realm: "HDP.EXAMPLE.COM", cache: fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid()), kdcs: []string{"kdc.example.com:88"},
			tgs: []int32{aes256, aes256SHA2, aes128SHA2, rc4}, udp: 1465, lifetime: 10*time.Hour + 30*time.Minute, drift: 5 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := readProfile("testdata/" + name + ".conf")
			require.NoError(t, err)
			require.Equal(t, want.cache, expand(p.first("libdefaults", "default_ccache_name")))
			c, err := p.config()
			require.NoError(t, err)
			require.Equal(t, want.realm, c.LibDefaults.DefaultRealm)
			require.Equal(t, want.lookup, c.LibDefaults.DNSLookupKDC)
			require.Equal(t, want.lifetime, c.LibDefaults.TicketLifetime)
			require.Equal(t, want.drift, c.LibDefaults.Clockskew)
			require.Equal(t, want.udp, c.LibDefaults.UDPPreferenceLimit)
			defaults := config.New().LibDefaults
			for _, list := range []struct{ want, got, otherwise []int32 }{
				{want.tkt, c.LibDefaults.DefaultTktEnctypeIDs, defaults.DefaultTktEnctypeIDs},
				{want.tgs, c.LibDefaults.DefaultTGSEnctypeIDs, defaults.DefaultTGSEnctypeIDs},
			} {
				if list.want == nil {
					list.want = list.otherwise
				}
				require.Equal(t, list.want, list.got)
			}
			var kdcs []string
			for _, realm := range c.Realms {
				if realm.Realm == want.realm {
					kdcs = realm.KDC
				}
			}
			require.Equal(t, want.kdcs, kdcs)
			_, err = Keytab("/etc/x.keytab", "reports", WithConfig("testdata/"+name+".conf"))
			require.NoError(t, err)
		})
	}
	ipa, err := configOf("testdata/freeipa.conf")
	require.NoError(t, err)
	require.Equal(t, "IPA.EXAMPLE.COM", ipa.ResolveRealm("zk1.ipa.example.com"))
	require.Equal(t, "IPA.EXAMPLE.COM", ipa.ResolveRealm("host.example.com"))
}

// TestKrb5ConfOfSeveralFiles: the first that sets a value counts, and some may be missing.
func TestKrb5ConfOfSeveralFiles(t *testing.T) {
	c, err := configOf("testdata/missing.conf:testdata/sles.conf:testdata/ambari.conf")
	require.NoError(t, err)
	require.Equal(t, "SUSE.EXAMPLE.COM", c.LibDefaults.DefaultRealm)
	require.Len(t, c.Realms, 3)
	_, err = configOf("testdata/missing.conf:testdata/absent.conf")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestKrb5ConfErrors name the file, the line and what was expected.
func TestKrb5ConfErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "krb5.conf")
	for text, want := range map[string]string{
		"[libdefaults]\n default_realm A\n": "line 2: \"default_realm A\", expected name = value",
		"[realms]\n A = {\n}\n}\n":          "line 4: \"}\" without {",
		"[realms]\n A =\n kdc = a\n":        "line 3: \"kdc = a\", expected {",
		"[realms]\n A = {\n[libdefaults]\n": "line 3: \"[libdefaults]\", expected a section outside of braces",
		"[realms\n":                         "line 1: \"[realms\", expected a section",
		"include /nowhere/krb5.conf\n":      "line 1: configuration could not be opened: open /nowhere/krb5.conf",
		"include " + path + "\n":            "files include each other",
		"module /lib/x.so:y\n":              "modules are not supported",
		"[libdefaults]\n permitted_enctypes = camellia256-cts-cmac des-cbc-md5\n": "no type of \"camellia256-cts-cmac des-cbc-md5\" is supported",
		"[realms]\n A = {\n kdc = https://ipa.example.com/KdcProxy\n}\n":          "kdc \"https://ipa.example.com/KdcProxy\" of the realm A",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Keytab("/etc/x.keytab", "a@A", WithConfig(path))
		require.ErrorContains(t, err, "gssapi: ")
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, os.WriteFile(path, []byte("a comment\n[realms]\n A = {\n kdc = https://a/b\n kdc = a\n"), 0o600))
	_, err := configOf(path)
	require.NoError(t, err)
}

// TestKrb5ConfValues: MIT's forms of values are read. What is none of them counts as missing.
func TestKrb5ConfValues(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"3600": time.Hour, "36000s": 10 * time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "1d 2h": 26 * time.Hour, "1d2h3m4s": 26*time.Hour + 184*time.Second,
		"10:00": 10 * time.Hour, "0:00:05": 5 * time.Second, "1-1:00:00": 25 * time.Hour, "90m": 90 * time.Minute,
		"": time.Minute, "soon": time.Minute, "0": time.Minute, "-5": time.Minute, "1:2:3:4": time.Minute, "99999999999999999999": time.Minute,
	} {
		require.Equal(t, want, duration(text, time.Minute), text)
	}
	for _, yes := range []string{"y", "yes", "TRUE", "t", "1", "on"} {
		require.True(t, isTrue(yes, false), yes)
	}
	for _, no := range []string{"n", "no", "False", "nil", "0", "off"} {
		require.False(t, isTrue(no, true), no)
	}
	require.True(t, isTrue("fallback", true))
	defaults := []int32{aes256, rc4}
	for list, want := range map[string][]int32{
		"aes256-cts,AES128-CTS": {aes256, aes128}, "DEFAULT -rc4": {aes256}, "DEFAULT +des3": {aes256, rc4, des3},
		"aes256-sha2 aes256-cts-hmac-sha384-192": {aes256SHA2}, unsupported: nil, "des3-cbc-sha1 arcfour-hmac-md5": {des3, rc4},
	} {
		require.Equal(t, want, encryptionTypes(list, defaults), list)
	}
}

// TestCredentialCacheKinds: files are read. Other kinds are refused by name, wherever it stands.
func TestCredentialCacheKinds(t *testing.T) {
	conf := func(cache string) string {
		path := filepath.Join(t.TempDir(), "krb5.conf")
		require.NoError(t, os.WriteFile(path, []byte("[libdefaults]\n default_realm = A\n default_ccache_name = "+cache+"\n"), 0o600))
		return path
	}
	plain := conf("FILE:/tmp/of_%{uid}")
	t.Setenv("KRB5CCNAME", "")
	for path, want := range map[string]string{
		"": fmt.Sprintf("/tmp/of_%d", os.Getuid()), "FILE:/tmp/a": "/tmp/a", "/tmp/a:b": "/tmp/a:b", "a": "a",
	} {
		m, err := CredentialCache(path, WithConfig(plain))
		require.NoError(t, err)
		require.Equal(t, &cacheSource{want}, m.source)
	}
	for _, kind := range []string{"KCM", "KEYRING", "DIR", "MEMORY", "API"} {
		_, err := CredentialCache(kind+":x", WithConfig(plain))
		require.ErrorContains(t, err, "a cache of the kind "+kind)
		_, err = CredentialCache("", WithConfig(conf(kind+":")))
		require.ErrorContains(t, err, "default_ccache_name in krb5.conf names a cache of the kind "+kind+"; run kinit -c FILE:/path")
	}
	t.Setenv("KRB5CCNAME", "KCM:0")
	_, err := CredentialCache("", WithConfig(plain))
	require.ErrorContains(t, err, "KRB5CCNAME names a cache of the kind KCM")
	_, err = CredentialCache("/tmp/a", WithConfig(plain))
	require.NoError(t, err)
}

// TestClientOptions: what cannot be is refused.
func TestClientOptions(t *testing.T) {
	c := client.NewWithPassword("a", "A", "x", config.New())
	_, err := Client(c)
	require.NoError(t, err)
	_, err = Client(nil)
	require.ErrorContains(t, err, "a client without credentials")
	_, err = Client(c, WithConfig("testdata/sles.conf"))
	require.ErrorContains(t, err, "WithConfig with a client of gokrb5")
}

// FuzzKrb5Conf: whatever a file says, there are settings or an error.
func FuzzKrb5Conf(f *testing.F) {
	for _, name := range []string{"rhel9", "freeipa", "sles", "ambari"} {
		text, err := os.ReadFile("testdata/" + name + ".conf")
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := &profile{values: make(map[string][]string)}
		if err := p.add(text, maxInclude); err != nil { // so that nothing is included
			return
		}
		if c, err := p.config(); err == nil {
			require.NotNil(t, c)
		}
	})
}
