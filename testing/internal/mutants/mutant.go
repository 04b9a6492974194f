// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// mutant is a changed file, and the test that must notice the change.
type mutant struct {
	name    string
	breaks  string // what is wrong in it, for the report
	file    string // slashes, relative to the module root
	changed []byte
	pkg     string // the folder of the package to test
	test    string
	flags   []string
	err     error // why there is no such mutant
}

// writeOverlay writes m's changed file and the overlay that puts it in the
// place of the real one into the directory dir, and returns the path of the
// overlay. The tree below root is only read.
func (m mutant) writeOverlay(root, dir string) (string, error) {
	replacement := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(replacement, m.changed, 0o600); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	// The form of the file is documented in "go help build" under -overlay.
	overlay, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(root, filepath.FromSlash(m.file)): replacement},
	})
	if err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	return path, nil
}
