// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// leaks fails if a secret of the clients of a guarded round is in anything that they have written: their
// histories, their log, which has all that the library has to say, and the errors that they
// have answered with.
func (r *round) leaks() error {
	c := r.cluster
	if !c.setup.guarded {
		return nil
	}
	key, err := privateKey(c.certificates())
	if err != nil {
		return err
	}
	written, err := r.written()
	if err != nil {
		return err
	}
	var forms []string
	for _, secret := range [][]byte{[]byte(credential), []byte(password), key} {
		forms = append(forms, formsOf(secret)...)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(written)) {
		for _, form := range forms {
			if before, _, found := bytes.Cut(written[name], []byte(form)); found {
				line := 1 + bytes.Count(before, []byte{'\n'})
				errs = append(errs, fmt.Errorf("nemesis: a secret of the clients is in line %d of %s", line, name))
				break // the other forms may be parts of this one
			}
		}
	}
	return errors.Join(errs...)
}

// written is what the clients have written, by the names of the files, and what the round has of them.
func (r *round) written() (map[string][]byte, error) {
	files, err := filepath.Glob(filepath.Join(r.cluster.folder, "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("nemesis: %w", err)
	}
	record, err := json.Marshal(r.record)
	if err != nil {
		return nil, fmt.Errorf("nemesis: %w", err)
	}
	all := map[string][]byte{campaignFile: record}
	for _, file := range append(files, filepath.Join(r.cluster.folder, clientsLog)) {
		if all[file], err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("nemesis: %w", err)
		}
	}
	return all, nil
}

// formsOf are the forms in which a secret would be seen: as it is, as Go prints bytes, and encoded, as bytes
// are in JSON for one.
func formsOf(secret []byte) []string {
	return []string{
		string(secret), strings.Trim(fmt.Sprintf("%d", secret), "[]"), hex.EncodeToString(secret), base64.StdEncoding.EncodeToString(secret),
	}
}

// privateKey is so much of the key in a PEM file as its first line has. That is enough to know it by, in
// PEM as well as in any other form.
func privateKey(file string) ([]byte, error) {
	const firstLine = 48
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("nemesis: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "PRIVATE KEY" && len(block.Bytes) > firstLine {
			return block.Bytes[:firstLine], nil
		}
	}
	return nil, fmt.Errorf("nemesis: %s has no private key", file)
}
