package cmd_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"flunq.io/flunq/cmd"
	"flunq.io/flunq/cmd/cli"
)

// A password with any characters reaches Redis, from the environment or the file of a
// context, and is never shown.
func TestPassword(t *testing.T) {
	t.Parallel()
	const password = "p@ss/w:rd %41"
	server := miniredis.RunT(t)
	server.RequireUserAuth("flunq", password)
	server.RequireAuth(password)
	folder := t.TempDir()
	config := filepath.Join(folder, "config.yaml")
	text := "context: prod\ncontexts:\n  prod: {redis-url: 'redis://flunq@" + server.Addr() + "', redis-password-file: secret}\n"
	for name, content := range map[string]string{"config.yaml": text, "secret": password + "\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want int
	}{
		"bare":        {map[string]string{"REDIS_URL": server.Addr(), "REDIS_PASSWORD": password}, nil, 0},
		"flag":        {map[string]string{"REDIS_PASSWORD": password}, []string{"--redis-url", "redis://" + server.Addr() + "/0"}, 0},
		"user":        {map[string]string{"REDIS_URL": "redis://flunq@" + server.Addr(), "REDIS_PASSWORD": password}, nil, 0},
		"file":        {map[string]string{"FLUNQ_CONFIG": config}, nil, 0},
		"environment": {map[string]string{"FLUNQ_CONFIG": config, "REDIS_PASSWORD": "wrong"}, nil, 6},
		"context":     {map[string]string{"FLUNQ_CONFIG": config, "REDIS_PASSWORD": "wrong"}, []string{"--context", "prod"}, 0},
		"elsewhere":   {map[string]string{"FLUNQ_CONFIG": config}, []string{"--redis-url", server.Addr()}, 6},
		"none":        {map[string]string{"REDIS_URL": server.Addr()}, nil, 6},
	} {
		var out, errs bytes.Buffer
		run := func(args ...string) int {
			return cmd.Execute(t.Context(), append(args, c.args...), cli.Streams{
				In: strings.NewReader(""), Out: &out, Err: &errs, Env: environment(c.env),
			})
		}
		if code := run("timers", "ls"); code != c.want {
			t.Errorf("%s: code %d, want %d: %s", name, code, c.want, &errs)
		}
		run("config", "show")
		if shown := out.String() + errs.String(); strings.Contains(shown, "ss/w") || strings.Contains(shown, "%41") {
			t.Errorf("%s: the password is shown: %s", name, shown)
		}
	}
}
