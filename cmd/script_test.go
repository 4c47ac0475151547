package cmd_test

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
	"time"
	_ "time/tzdata" // scripts choose time zones

	"github.com/rogpeppe/go-internal/testscript"

	"flunq.io/flunq/cmd"
)

var update = flag.Bool("update", false, "rewrite the wanted output in the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"flunq": func() { os.Exit(cmd.Main()) }})
}

// runScripts runs scripts as all of them are run.
func runScripts(t *testing.T, p testscript.Params) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("if a wanted output changed on purpose: go test ./cmd -update rewrites it")
		}
	})
	p.UpdateScripts, p.RequireExplicitExec, p.RequireUniqueNames = *update, true, true
	testscript.Run(t, p)
}

// The scripts in testdata/script document the commands and test them.
func TestScript(t *testing.T) {
	t.Parallel()
	runScripts(t, testscript.Params{
		Dir:  "../testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code, "await": await},
		Setup: func(env *testscript.Env) error {
			env.Setenv("LC_ALL", "C.UTF-8")
			env.Setenv("TZ", "UTC")
			env.Setenv("FLUNQ_USER", "ada@host")
			return nil
		},
	})
}

// code runs a command and checks its exit code: code 5 flunq validate x.yaml.
func code(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: code CODE COMMAND [ARGUMENT…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = strconv.Itoa(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// await repeats a command until it succeeds and its output matches a pattern: await
// 'completed' flunq show 1.
func await(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: await PATTERN COMMAND [ARGUMENT…]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ts.Exec(args[1], args[2:]...) == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("nothing that matches %q within %v", args[0], patience)
}
