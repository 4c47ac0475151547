//go:build unix

package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// lock is a locked file beside the data file. A killed process leaves the file behind, but not locked.
type lock struct{ file *os.File }

// lockData locks a data file, "" for none. The error wraps ErrUsed if another process has locked it.
func lockData(name string) (lock, error) {
	if name == "" {
		return lock{}, nil
	}
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	for {
		f, err := os.OpenFile(name+".lock", os.O_CREATE|os.O_RDWR, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			return lock{}, nil // there is no such folder, which is reported when the file is read
		}
		if err != nil {
			return lock{}, fmt.Errorf("lock the data file: %w", err)
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%s: %w by another flunq dev%s: stop it or choose another file", name, ErrUsed, holder(f))
		} else if err == nil && !current(f) {
			_ = f.Close() // the process that had locked it has removed it meanwhile
			continue
		}
		if err != nil {
			_ = f.Close() // nothing was written
			return lock{}, err
		}
		_ = f.Truncate(0)
		_, _ = f.WriteString(strconv.Itoa(os.Getpid())) // only a message says it
		return lock{f}, nil
	}
}

// holder returns the process that has locked a file, as a part of a message.
func holder(f *os.File) string {
	const limit = 20
	pid := make([]byte, limit)
	n, _ := f.Read(pid)
	if _, err := strconv.Atoi(string(pid[:n])); err != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %s)", strings.TrimSpace(string(pid[:n])))
}

// current reports whether an open file still has its name.
func current(f *os.File) bool {
	here, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(f.Name())
	return err == nil && os.SameFile(here, there)
}

// release unlocks the data file.
func (l lock) release() {
	if l.file != nil {
		_ = os.Remove(l.file.Name()) // a leftover file does no harm
		_ = l.file.Close()
	}
}
