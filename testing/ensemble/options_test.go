// SPDX-License-Identifier: Apache-2.0

package ensemble_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/ensemble"
)

func TestOptionsRefuseBadValues(t *testing.T) {
	for text, opt := range map[string]ensemble.Option{
		"size is 2, expected 1, 3, 5 or 7": ensemble.WithSize(2),
		"size is 9, expected 1, 3, 5 or 7": ensemble.WithSize(9),
		"4 observers, expected 1 to 3":     ensemble.WithObservers(4),
		"WithObservers beside WithSize(1)": ensemble.WithObservers(1),
		"tick is 1.5ms":                    ensemble.WithTick(1500 * time.Microsecond),
		"sync limit is 0":                  ensemble.WithSyncLimit(0),
		"container check interval is 0s":   ensemble.WithContainerCheckInterval(0),
		"dir is empty":                     ensemble.WithDir(""),
		"java is empty":                    ensemble.WithJava(""),
		"class path is empty":              ensemble.WithClassPath(""),

		`JVM flag "1g", expected one that begins with -X`:                       ensemble.WithJVMFlags("1g"),
		`property "a=b"="c"`:                                                    ensemble.WithProperty("a=b", "c"),
		`config line "a"="b\nc"`:                                                ensemble.WithConfig("a", "b\nc"),
		`config key "dataDir" is set by the package`:                            ensemble.WithConfig("dataDir", "/"),
		`config key "server.4" is set by the package`:                           ensemble.WithConfig("server.4", "x"),
		`config key "secureClientPort" is set by the package, expected WithTLS`: ensemble.WithConfig("secureClientPort", "1"),
		`TLS with "keys.jks", expected a file whose name ends in .pem`:          ensemble.WithTLS("keys.jks", "trust.pem"),
		`TLS with "missing.pem"`:                                                ensemble.WithTLS("missing.pem", "trust.pem"),
		"the super user has no name":                                            ensemble.WithSuperDigest("", "secret"),
		"or one with a colon":                                                   ensemble.WithSuperDigest("a:b", "secret"),
		"a SASL user without a name":                                            ensemble.WithSASLUsers(map[string]string{"": "secret"}),
		"that a JAAS file cannot have":                                          ensemble.WithSASLUsers(map[string]string{"a": "\"secret"}),
		"JAAS without a section Server":                                         ensemble.WithJAAS("Client {};"),
		"nil option":                                                            nil,
	} {
		_, err := ensemble.Start(t.Context(), opt)
		require.ErrorContains(t, err, text)
	}
}

func TestOptionsMissingJava(t *testing.T) {
	t.Run("in PATH", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := ensemble.Start(t.Context())
		require.ErrorIs(t, err, ensemble.ErrNotInstalled)
		require.ErrorContains(t, err, "default-jre-headless")
	})
	t.Run("as option", func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "java")
		_, err := ensemble.Start(t.Context(), ensemble.WithJava(missing))
		require.ErrorIs(t, err, ensemble.ErrNotInstalled)
		require.ErrorIs(t, err, os.ErrNotExist)
		require.ErrorContains(t, err, missing)
	})
}
