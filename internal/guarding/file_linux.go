// SPDX-License-Identifier: Apache-2.0

package guarding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// file keeps the session of a process for the same program, started again. The process has it locked for as long as it
// lives, so no other process can use the session meanwhile. The kernel ends the lock with the process alone.
type file struct {
	*os.File

	inode uint64
}

// inFile is the content of a file, which is empty if no session may be taken.
type inFile struct {
	Inode uint64 // of the file: a copy has no lock that the process holds
	Registration
}

// OpenFile locks the file of a session, creates it if need be, and takes the session that is in it.
func OpenFile(path string) (Keeper, *Registration, error) {
	opened, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, err
	}
	f := &file{File: opened}
	left, err := f.take()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", path, err), opened.Close())
	}
	return f, left, nil
}

func (f *file) take() (*Registration, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	stat := info.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // of Linux
	if f.inode = stat.Ino; int(stat.Uid) != os.Geteuid() || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%v of user %d, expected a file of user %d with mode 0600", info.Mode(), stat.Uid, os.Geteuid())
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another client has the file: %w", err)
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	var left inFile
	// What a process has half written when it was killed gives no session.
	if json.Unmarshal(content, &left) != nil || left.Session == 0 || left.Inode != f.inode {
		return nil, f.Truncate(0)
	}
	return &left.Registration, f.Truncate(0)
}

// Register writes a session that another client may have after this one, and removes any other.
func (f *file) Register(_ context.Context, r Registration) error {
	err := f.Truncate(0)
	if err == nil && r.Program != "" {
		var content []byte
		if content, err = json.Marshal(inFile{f.inode, r}); err == nil {
			_, err = f.WriteAt(content, 0)
		}
	}
	if err != nil && f.Truncate(0) != nil {
		locked.Store(f, nil)
	}
	return err
}

// locked has the files that stay open until this process ends: they may have a session that it goes on with.
var locked sync.Map

func (*file) Lost() <-chan struct{} { return nil }

// Drop ends the lock. A session is in the file only if its client is closed.
func (f *file) Drop() {
	if _, stays := locked.Load(f); !stays {
		_ = f.Close() // nothing is unwritten
	}
}

func (f *file) Withdraw() {
	_ = f.Truncate(0) // the session has ended, so another client gets none either way
	f.Drop()
}
