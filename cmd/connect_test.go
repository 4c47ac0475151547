package cmd_test

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"io"
	stdlog "log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"flunq.io/flunq/cmd"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store/redistest"
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
		if name == "flag" {
			example := written(t, "hello.yaml", "document: {dsl: '1.0.3', namespace: demo, name: hello, version: '0.1.0'}\ndo: [{a: {set: {b: 1}}}]\n")
			if code := run("run", example); code != 0 {
				t.Errorf("run: code %d: %s", code, &errs)
			}
			// Both addresses get the password.
			move := []string{"tenants", "mv", "nobody", "--from", server.Addr(), "--to", "redis://" + server.Addr() + "/1"}
			code := cmd.Execute(t.Context(), move, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Env: environment(c.env)})
			if code != cli.ExitFailed || !strings.Contains(errs.String(), "tenant nobody: not found") {
				t.Errorf("tenants mv: code %d: %s", code, &errs)
			}
		}
		run("config", "show")
		if shown := out.String() + errs.String(); strings.Contains(shown, "ss/w") || strings.Contains(shown, "%41") {
			t.Errorf("%s: the password is shown: %s", name, shown)
		}
	}
}

// An error of a TLS connection says what to do about it, and that a request was not sent.
func TestTLSAdvice(t *testing.T) {
	t.Parallel()
	quiet := stdlog.New(io.Discard, "", 0)
	plain := httptest.NewServer(nil)
	encrypted, strict := httptest.NewUnstartedServer(nil), httptest.NewUnstartedServer(nil)
	encrypted.EnableHTTP2, strict.EnableHTTP2 = true, true
	encrypted.Config.ErrorLog, strict.Config.ErrorLog = quiet, quiet
	encrypted.StartTLS()
	strict.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	strict.StartTLS()
	for _, server := range []*httptest.Server{plain, encrypted, strict} {
		t.Cleanup(server.Close)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: strict.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	schedule := func(at *httptest.Server, flags ...string) []string {
		return append([]string{"schedule", "add", "--topic", "orders", "--after", "5m", "--grpc", at.Listener.Addr().String()}, flags...)
	}
	for name, c := range map[string]struct {
		args []string
		want string
		sent bool // perhaps
	}{
		"unknown CA":       {schedule(encrypted, "--tls"), "name the file of the CA that signed the certificate: --tls-ca FILE", false},
		"server without":   {schedule(plain, "--tls"), "it does not encrypt connections", false},
		"client without":   {schedule(encrypted), "if it encrypts connections, give --tls or --tls-ca FILE", false},
		"no client's":      {schedule(strict, "--tls-ca", ca), "if it requires client certificates, give one", true},
		"Redis unknown CA": {[]string{"ps", "--redis-url", "rediss://" + encrypted.Listener.Addr().String()}, "tls_ca in the address can name the file of a CA", false},
	} {
		var errs bytes.Buffer
		code := cmd.Execute(t.Context(), c.args, cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs, Env: environment(nil)})
		if code != cli.ExitUnreachable || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: code %d: %s\nwant %q", name, code, &errs, c.want)
		}
		if !c.sent && strings.Contains(errs.String(), "may have taken effect") {
			t.Errorf("%s: a request that was not sent may have taken effect: %s", name, &errs)
		}
	}
}

// A write that too few replicas have confirmed was made nevertheless: the error has the id that makes a repetition safe.
func TestRepeatUnconfirmed(t *testing.T) {
	t.Parallel()
	rdb := redistest.Serve(t)
	env := func(s *cli.Streams) { s.Env = environment(map[string]string{"REDIS_WAIT": "1"}) }
	_, stderr, code := flunq(t, env, "emit", "--type", "paid", "--redis-url", "redis://"+rdb.Addr())
	if n, err := rdb.Client(t).XLen(t.Context(), "tenant:default:events").Result(); err != nil || n != 1 {
		t.Errorf("%d events, %v", n, err)
	}
	if code != 1 || !strings.Contains(stderr, "(REDIS_WAIT): 0 of 1; it may have taken effect nevertheless: to repeat the command, give it --id ") {
		t.Errorf("code %d: %s", code, stderr)
	}
}
