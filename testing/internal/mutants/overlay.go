package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// writeOverlay writes m's changed file and the overlay that puts it in the
// place of the real one into the directory dir, and returns the path of the
// overlay. The tree below root is only read.
func writeOverlay(root, dir string, m mutant) (string, error) {
	file, changed, err := m.apply(root)
	if err != nil {
		return "", err
	}
	replacement := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(replacement, changed, 0o600); err != nil {
		return "", fmt.Errorf("overlay: %w", err)
	}
	// The form of the file is documented in "go help build" under -overlay.
	overlay, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(root, filepath.FromSlash(file)): replacement},
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
