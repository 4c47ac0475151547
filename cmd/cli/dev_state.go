package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/cmd/replace"
)

// DevState tells other commands how to reach a running flunq dev.
type DevState struct {
	URL     string    `json:"redis_url"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Clock   dev.Mode  `json:"clock"`
	Tenant  string    `json:"tenant"`

	Scheduler string `json:"scheduler,omitempty"` // address of its gRPC server; "": none
}

// devStatePath returns the path of the published state.
func devStatePath(sh *Shell) string {
	if folder := sh.Env("FLUNQ_STATE"); folder != "" {
		return filepath.Join(folder, "dev.json")
	}
	for _, name := range []string{"XDG_RUNTIME_DIR", "XDG_STATE_HOME"} {
		if folder := sh.Env(name); filepath.IsAbs(folder) {
			return filepath.Join(folder, "flunq", "dev.json")
		}
	}
	return filepath.Join(home(sh), ".local", "state", "flunq", "dev.json")
}

// ReadDevState reads the state of the flunq dev that was started last; that process may have
// ended.
func ReadDevState(sh *Shell) (DevState, bool) {
	text, err := os.ReadFile(devStatePath(sh))
	if err != nil {
		return DevState{}, false
	}
	var s DevState
	if err := json.Unmarshal(text, &s); err != nil || s.URL == "" {
		return DevState{}, false
	}
	return s, true
}

// devPatience is how long to wait for a response of a running flunq dev.
const devPatience = 10 * time.Second

// Answers reports whether the flunq dev of this state is still running. Another program on
// its port would not know the command.
func (s DevState) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, devPatience)
	defer cancel()
	rdb, err := Dial(ctx, s.URL)
	if err != nil {
		return false
	}
	defer func() { _ = rdb.Close() }()
	return rdb.Do(ctx, dev.Command, "SHOW").Err() == nil
}

// Write publishes the state.
func (s DevState) Write(sh *Shell) error {
	path := devStatePath(sh)
	text, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = replace.File(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("publish the address for other commands: %w", err)
	}
	return nil
}

// Withdraw ends the publication of s, unless another process has published its own state since.
func (s DevState) Withdraw(ctx context.Context, sh *Shell, before DevState) {
	if now, ok := ReadDevState(sh); !ok || now.PID != s.PID || now.URL != s.URL {
		return
	}
	if before.Answers(ctx) && before.Write(sh) == nil {
		return
	}
	_ = os.Remove(devStatePath(sh)) // a stale file is ignored
}
