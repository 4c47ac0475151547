// Package dynamotest runs emulators of DynamoDB for tests: dynalite, which is small, and DynamoDB
// Local, which is Amazon's own. Both are installed from the npm registry on first use, and stay in
// the user's cache directory.
package dynamotest

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/engine/dynamo"
)

// requireVariable is the environment variable that makes a missing dynalite a failure.
const requireVariable = "FLUNQ_REQUIRE_DYNAMO"

const (
	dynalitePackage = "dynalite@4.0.0"
	localPackage    = "amplify-dynamodb-simulator@2.9.30" // has DynamoDB Local 1.25.1
	installTime     = 5 * time.Minute                     // for a download
	startTime       = time.Minute                         // for an emulator to answer
	startPause      = 50 * time.Millisecond
)

// One emulator of each kind serves all tests of a process, which use their own tables.
//
//nolint:gochecknoglobals // see above
var (
	dynalite = sync.OnceValues(startDynalite)
	local    = sync.OnceValues(startLocal)
)

// Each runs test as a subtest on each emulator, with its endpoint.
func Each(t *testing.T, test func(t *testing.T, endpoint string)) {
	t.Helper()
	t.Run("dynalite", func(t *testing.T) {
		t.Parallel()
		test(t, Dynalite(t))
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		test(t, Local(t))
	})
}

// Dynalite returns the endpoint of a dynalite. If dynalite is not available, it skips the test, or
// fails it if FLUNQ_REQUIRE_DYNAMO is 1.
func Dynalite(t testing.TB) string {
	t.Helper()
	endpoint, err := dynalite()
	if err != nil && os.Getenv(requireVariable) == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skipf("DYNAMODB NOT TESTED on dynalite: %v (it needs node and npm)", err)
	}
	return endpoint
}

// Local returns the endpoint of a DynamoDB Local. If it is not available, it skips the test, since
// Java is a lot to ask for.
func Local(t testing.TB) string {
	t.Helper()
	endpoint, err := local()
	if err != nil {
		t.Skipf("DYNAMODB NOT TESTED on DynamoDB Local: %v (it needs java, npm and tar)", err)
	}
	return endpoint
}

// Options returns options for a table that only this test uses and that does not exist yet.
func Options(endpoint string) dynamo.Options {
	opts := dynamo.Defaults()
	opts.Endpoint, opts.Table, opts.Timeout = endpoint, "flunq-"+rand.Text(), startTime
	return opts
}

// Table creates an empty table.
func Table(t testing.TB, endpoint string) *dynamo.Table {
	t.Helper()
	return Init(t, Options(endpoint))
}

// Init initializes a table and returns it.
func Init(t testing.TB, opts dynamo.Options) *dynamo.Table {
	t.Helper()
	table, err := dynamo.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	return table
}

// dynaliteServer lets the system choose a port and prints it. Without the handler, dynalite would
// exit when a client is killed in the middle of a request.
const dynaliteServer = `process.on("uncaughtException", function (err) { if (err.code !== "ECONNRESET") throw err });
require("dynalite")({createTableMs: 0, updateTableMs: 0, deleteTableMs: 0}).
	listen(0, "127.0.0.1", function () { console.log("port " + this.address().port) })`

func startDynalite() (string, error) {
	folder, err := install(dynalitePackage, "npm", "install", "--no-audit", "--no-fund", "--no-save", "--prefix", ".", dynalitePackage)
	if err != nil {
		return "", err
	}
	lines, err := run(folder, "node", "-e", dynaliteServer)
	if err != nil {
		return "", err
	}
	for line := range lines {
		if port, ok := strings.CutPrefix(line, "port "); ok {
			return answer("http://127.0.0.1:"+port, lines)
		}
	}
	return "", errors.New("dynalite exited immediately")
}

func startLocal() (string, error) {
	if _, err := exec.LookPath("java"); err != nil { // before a large download
		return "", err
	}
	folder, err := install(localPackage, "sh", "-c", `npm pack --silent "$0" && tar xzf ./*.tgz && rm ./*.tgz`, localPackage)
	if err != nil {
		return "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err := errors.Join(err, listener.Close()); err != nil {
		return "", err
	}
	lines, err := run(filepath.Join(folder, "package", "emulator"), "java", "-Xmx256m", "-Djava.library.path=./DynamoDBLocal_lib",
		"-DDDB_LOCAL_TELEMETRY=0", "-jar", "DynamoDBLocal.jar", "-inMemory", "-sharedDb", "-port", port, "-disableTelemetry")
	if err != nil {
		return "", err
	}
	return answer("http://127.0.0.1:"+port, lines)
}

// install returns the directory into which a command has installed something, now or earlier.
func install(name, command string, args ...string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "flunq-tests")
	folder := filepath.Join(cache, strings.ReplaceAll(name, "@", "-"))
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", err
	}
	// Other processes may install it at the same time; the first one to finish wins.
	own, err := os.MkdirTemp(cache, "installing-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(own) }()
	ctx, cancel := context.WithTimeout(context.Background(), installTime)
	defer cancel()
	installer := exec.CommandContext(ctx, command, args...)
	installer.Dir = own
	if out, err := installer.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install %s: %w: %s", name, err, out)
	}
	if err := os.Rename(own, folder); err != nil {
		if _, gone := os.Stat(folder); gone != nil {
			return "", err
		}
	}
	return folder, nil
}

// run starts a program that dies with this process, and returns the lines that it prints. The
// channel is closed when the program exits.
func run(folder string, command ...string) (<-chan string, error) {
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil, err
	}
	// The shell reads from a pipe that this process never writes to, and that the system
	// closes when this process ends for whatever reason.
	const guard = `"$@" 2>&1 & program=$!; (read -r _; kill -9 "$program") <&3 >/dev/null 2>&1 & wait "$program"`
	shell := exec.Command("sh", append([]string{"-c", guard, "sh"}, command...)...)
	shell.Dir = folder
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	shell.ExtraFiles = []*os.File{read}
	out, err := shell.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(shell.Start(), read.Close()); err != nil {
		return nil, err
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			default: // later output is dropped
			}
		}
		_ = shell.Wait()
		runtime.KeepAlive(write)
	}()
	return lines, nil
}

// answer waits until an emulator answers or has exited.
func answer(endpoint string, lines <-chan string) (string, error) {
	last := ""
	for began := time.Now(); time.Since(began) < startTime; {
		if response, err := http.Get(endpoint); err == nil {
			return endpoint, response.Body.Close()
		}
		select {
		case line, open := <-lines:
			if !open {
				return "", fmt.Errorf("the emulator at %s exited immediately: %s", endpoint, last)
			}
			last = line
		case <-time.After(startPause):
		}
	}
	return "", fmt.Errorf("the emulator at %s does not respond", endpoint)
}
