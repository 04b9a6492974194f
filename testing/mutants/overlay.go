package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// writeOverlay writes m's changed file and the overlay that puts it in the
// place of the real one into a new directory below scratch, and returns the
// path of the overlay. The tree below root is only read.
func writeOverlay(root, scratch string, m mutant) (string, error) {
	changed, err := m.apply(root)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(scratch, "mutant-*")
	if err != nil {
		return "", fmt.Errorf("mutants: %s: %w", m.name, err)
	}
	replacement := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(replacement, changed, 0o600); err != nil {
		return "", fmt.Errorf("mutants: %s: %w", m.name, err)
	}
	// The form of the file is documented in "go help build" under -overlay.
	overlay, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(root, filepath.FromSlash(m.file)): replacement},
	})
	if err != nil {
		return "", fmt.Errorf("mutants: %s: %w", m.name, err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o600); err != nil {
		return "", fmt.Errorf("mutants: %s: %w", m.name, err)
	}
	return path, nil
}
