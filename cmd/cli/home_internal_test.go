package cli

import (
	"os/user"
	"path/filepath"
	"testing"
)

// Without HOME, files of the current folder are not read as the configuration or as the address of an
// engine.
func TestNoHome(t *testing.T) {
	t.Parallel()
	u, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	for _, value := range []string{"", "relative"} {
		sh := &Shell{Streams: Streams{Env: func(name string) string { return map[string]string{"HOME": value}[name] }}}
		config, _ := ConfigPath(sh)
		if want := filepath.Join(u.HomeDir, ".config", "flunq", "config.yaml"); config != want {
			t.Errorf("HOME=%q: the configuration is %s, want %s", value, config, want)
		}
		if got, want := devStatePath(sh), filepath.Join(u.HomeDir, ".local", "state", "flunq", "dev.json"); got != want {
			t.Errorf("HOME=%q: the state is %s, want %s", value, got, want)
		}
	}
}
