// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// guardedRound is a round whose clients had nothing to say.
func guardedRound(t *testing.T) *round {
	r := &round{cluster: &cluster{folder: t.TempDir(), setup: setup{guarded: true}}}
	require.NoError(t, certify(r.cluster.certificates(), []net.IP{{127, 0, 0, 1}}))
	for _, name := range []string{clientsLog, "c1.1.jsonl"} {
		r.write(t, name, "nothing\n")
	}
	return r
}

func (r *round) write(t *testing.T, name, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(r.cluster.folder, name), []byte(text), 0o600))
}

// A secret is found wherever clients have written it, and in whatever form; and the error does not
// tell it either.
func TestSecretsLeaks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(guardedRound(t).cluster.certificates())
	require.NoError(t, err)
	require.NotContains(t, string(text), password)
	require.NoError(t, guardedRound(t).leaks())

	for _, form := range []string{
		credential, password, "digest " + password + "!", fmt.Sprintf("%v", struct{ Auth []byte }{[]byte(credential)}),
		hex.EncodeToString([]byte(credential)), base64.StdEncoding.EncodeToString([]byte(credential)),
	} {
		for _, name := range []string{clientsLog, "c1.1.jsonl"} {
			r := guardedRound(t)
			r.write(t, name, "nothing\nclient="+form+"\n")
			err := r.leaks()
			require.ErrorContains(t, err, "a secret of the clients is in line 2 of "+filepath.Join(r.cluster.folder, name), form)
			require.NotContains(t, err.Error(), password)
			require.NotContains(t, err.Error(), "\n", "one file, one find")
		}
	}
	r := guardedRound(t)
	r.record.Faults = []faultRecord{{Error: "authentication as " + credential + " failed"}}
	require.ErrorContains(t, r.leaks(), campaignFile)

	r.cluster.setup.guarded = false
	require.NoError(t, r.leaks(), "nobody presents it")
}

// So is the key of TLS: the line of the file, or its bytes.
func TestSecretsLeaksOfTheKey(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]func(text string, key []byte) string{
		"PEM":   func(text string, _ []byte) string { return text },
		"bytes": func(_ string, key []byte) string { return fmt.Sprintf("%v", key) },
	} {
		r := guardedRound(t)
		text, err := os.ReadFile(r.cluster.certificates())
		require.NoError(t, err)
		_, own, found := strings.Cut(string(text), "-----BEGIN PRIVATE KEY-----\n")
		require.True(t, found)
		key, _ := pem.Decode([]byte("-----BEGIN PRIVATE KEY-----\n" + own))
		r.write(t, clientsLog, form(strings.ReplaceAll(own, "\n", `\n`), key.Bytes))
		require.ErrorContains(t, r.leaks(), "line 1 of", name)
	}
}

// What nobody has written cannot be searched.
func TestSecretsLeaksNeedWhatWasWritten(t *testing.T) {
	t.Parallel()
	r := guardedRound(t)
	require.NoError(t, os.Remove(filepath.Join(r.cluster.folder, clientsLog)))
	require.ErrorContains(t, r.leaks(), clientsLog)
}
