package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"flunq.io/flunq/cmd/report"
)

// reportFile is a report that is being written: a temporary file beside its destination, which it
// replaces when it is complete.
type reportFile struct {
	sh   *shell
	name string   // as given
	path string   // the destination
	f    *os.File // nil if no report is wanted
}

// openReport checks that a report can be written before the work for it begins.
func openReport(sh *shell, name string) (*reportFile, error) {
	file := &reportFile{sh: sh, name: name, path: name}
	switch name {
	case "":
		return file, nil
	case "-":
		return nil, misusef("--report -: want a file, because the output goes to stdout")
	}
	if target, err := filepath.EvalSymlinks(name); err == nil {
		file.path = target
	}
	mode := fs.FileMode(0o666)
	if info, err := os.Stat(file.path); err == nil {
		if !info.Mode().IsRegular() {
			return nil, misusef("--report %s: not a file that a report can be written to", name)
		}
		mode = info.Mode().Perm()
		probe, err := os.OpenFile(file.path, os.O_WRONLY, 0) // the file may be protected even if its folder is not
		if err != nil {
			return nil, fail(exitMisuse, fmt.Errorf("--report %w", withoutVerb(name, err)))
		}
		_ = probe.Close() // nothing was written
	}
	beside := filepath.Join(filepath.Dir(file.path), fmt.Sprintf(".%s.%d.tmp", filepath.Base(file.path), os.Getpid()))
	var err error
	if file.f, err = os.OpenFile(beside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode); err != nil {
		return nil, fail(exitMisuse, fmt.Errorf("--report %w", withoutVerb(name, err)))
	}
	return file, nil
}

// write writes the report and moves it to its destination atomically.
func (r *reportFile) write(page *report.Report) error {
	if r.f == nil {
		return nil
	}
	f := r.f
	r.f = nil
	page.Version = version().Version
	err := page.Write(f)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), r.path)
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", errors.Join(withoutVerb(r.name, err), os.Remove(f.Name())))
	}
	r.sh.hint("report written to %s", printable(r.name))
	return nil
}

// discard removes the temporary file if the report was not written.
func (r *reportFile) discard() {
	if r != nil && r.f != nil {
		_ = r.f.Close()           // its content is not needed
		_ = os.Remove(r.f.Name()) // likewise
		r.f = nil
	}
}
