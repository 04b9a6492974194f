// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	memoryDir    = "/dev/shm"
	folderPrefix = "zk-ensemble-"
	lockName     = "in-use"
)

// folder holds all files of one ensemble. The file in-use in it is locked as long as the process that made it lives, by which
// others tell a folder in use from one that a killed test left behind.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a folder where the settings say, and removes there what killed tests have left.
func newFolder(s *settings) (*folder, error) {
	if s.parent != "" {
		return makeFolder(s.parent)
	}
	if !s.fsync {
		if f, err := makeFolder(memoryDir); err == nil {
			return f, nil // or there is no such thing here, and the default will do
		}
	}
	return makeFolder(os.TempDir())
}

func makeFolder(parent string) (*folder, error) {
	removeAbandoned(parent)
	parent, err := filepath.Abs(parent)
	if err != nil {
		return nil, fmt.Errorf("ensemble: %w", err)
	}
	path, err := os.MkdirTemp(parent, folderPrefix)
	if err != nil {
		return nil, fmt.Errorf("ensemble: %w", err)
	}
	f := &folder{path: path}
	if err := f.claim(); err != nil {
		return nil, errors.Join(fmt.Errorf("ensemble: %w", err), f.remove())
	}
	return f, nil
}

// claim locks the folder. The lock file gets its name only once it is locked, so no process finds it unlocked while its owner lives.
func (f *folder) claim() error {
	draft := filepath.Join(f.path, lockName+".new")
	lock, err := os.Create(draft)
	if err != nil {
		return err
	}
	f.lock = lock
	if _, err := tryLock(lock); err != nil {
		return err
	}
	return os.Rename(draft, filepath.Join(f.path, lockName))
}

// remove removes the folder with all that is in it.
func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	return err
}

// removeAbandoned removes the folders whose owners are dead. What cannot be removed belongs to another user and is theirs to remove, so
// failures do not matter here.
func removeAbandoned(parent string) {
	locks, _ := filepath.Glob(filepath.Join(parent, folderPrefix+"*", lockName)) // the pattern is valid
	for _, name := range locks {
		lock, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if locked, err := tryLock(lock); locked && err == nil {
			_ = os.RemoveAll(filepath.Dir(name))
		}
		_ = lock.Close() // which gives up the lock; nothing was written
	}
}
