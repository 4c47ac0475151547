package dev

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"flunq.io/flunq/cmd/replace"
	"flunq.io/flunq/engine/event"
)

// format is the version of the data file.
const format = 1

// file is the content of a data file.
type file struct {
	Format int       `json:"flunq_dev"`
	Saved  time.Time `json:"saved"` // by the saved clock
	Clock  *kept     `json:"clock,omitempty"`
	Keys   []key     `json:"keys"`
}

// kept is the state of a virtual clock.
type kept struct {
	Now    time.Time `json:"now"`
	Paused bool      `json:"paused,omitempty"`
}

// key is a key of Redis with its value.
type key struct {
	Name    text    `json:"key"`
	Kind    string  `json:"type"`
	Expires int64   `json:"expires,omitempty"` // a Unix time in milliseconds; 0: never
	Values  []text  `json:"values,omitempty"`  // a string: its value; a hash: fields and values; a ZSET: members and scores
	Entries []line  `json:"entries,omitempty"`
	Last    string  `json:"last,omitempty"` // the last id of a stream
	Groups  []group `json:"groups,omitempty"`
}

// line is an entry of a stream.
type line struct {
	ID     string `json:"id"`
	Fields []text `json:"fields"`
}

// group is a consumer group.
type group struct {
	Name    text           `json:"name"`
	Last    string         `json:"last"` // the last delivered id
	Pending []pendingEntry `json:"pending,omitempty"`
}

// pendingEntry is an entry that was delivered but not acknowledged.
type pendingEntry struct {
	ID       string `json:"id"`
	Consumer text   `json:"consumer"`
	Count    int64  `json:"count"`
}

// text is a string of Redis, which may contain any bytes.
type text string

// MarshalJSON writes text that is not UTF-8 as base64.
func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string][]byte{"base64": []byte(t)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *text) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		var s string
		err := json.Unmarshal(data, &s)
		*t = text(s)
		return err
	}
	var b struct {
		Base64 []byte `json:"base64"`
	}
	if err := event.DecodeStrictly(data, &b); err != nil {
		return err
	}
	*t = text(b.Base64)
	return nil
}

// ErrBroken is wrapped by errors about an invalid data file.
var ErrBroken = errors.New("not a valid data file of flunq dev: move it away or choose another file")

// load reads a data file; a missing file is empty.
func load(name string) (file, error) {
	if name == "" {
		return file{}, nil
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		// Report it now: when the data is saved, it would be too late.
		if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
			return file{}, fmt.Errorf("%s: folder %s does not exist", name, filepath.Dir(name))
		}
		return file{}, nil
	}
	if err != nil {
		return file{}, fmt.Errorf("data file: %w", err)
	}
	var f file
	if err := event.DecodeStrictly(data, &f); err != nil {
		return file{}, fmt.Errorf("%s: %w (%w)", name, ErrBroken, err)
	}
	if f.Format != format {
		return file{}, fmt.Errorf("%s: %w (format %d, want %d)", name, ErrBroken, f.Format, format)
	}
	return f, nil
}

// write replaces the data file atomically.
func (f file) write(name string) error {
	data, err := json.Marshal(f)
	if err == nil {
		err = replace.File(name, data)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// stamp distinguishes versions of a file.
type stamp struct {
	size int64
	at   time.Time
}

// stampOf returns the stamp of a file, zero if it does not exist.
func stampOf(name string) stamp {
	info, err := os.Stat(name)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime()}
}

// sum returns a hash of the keys.
func sum(keys []key) ([32]byte, error) {
	data, err := json.Marshal(keys)
	return sha256.Sum256(data), err
}
