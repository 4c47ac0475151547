package cmd_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/cmd"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store/redistest"
)

// start --wait, history --follow and ps --watch go on after Redis was away.
func TestCommandsOutlastRedis(t *testing.T) {
	t.Parallel()
	address := redistest.Addr(t)
	serve(t, "redis://"+address)
	link := connectBy(t, address)
	file := written(t, "w.yaml", `document: {dsl: '1.0.3', namespace: d, name: w, version: '1.0.0'}
do:
  - paid: {listen: {to: {one: {with: {type: paid}}}}}
`)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	started := begin(ctx, link.url(), "start", file, "--id", "order-7", "--wait")
	started.await(t, "execution order-7")
	waits := eventually(t, func() bool {
		shown, _, _ := flunq(t, nil, "show", "order-7", "--redis-url", "redis://"+address, "-o", "json")
		return strings.Contains(shown, `"waiting"`)
	})
	if !waits {
		t.Fatal("the execution does not wait")
	}
	followed := begin(ctx, link.url(), "history", "order-7", "--follow")
	followed.await(t, "paid")
	watching, interrupt := context.WithCancel(ctx)
	watched := begin(watching, link.url(), "ps", "--watch", "-o", "jsonl")
	watched.await(t, "order-7")
	running := []*outlasting{started, followed, watched}
	link.cut()
	for _, c := range running {
		c.await(t, "trying again for up to a minute: redis: ")
	}
	link.mend()
	if _, stderr, code := flunq(t, nil, "emit", "--type", "paid", "--redis-url", "redis://"+address); code != 0 {
		t.Fatal(stderr)
	}
	watched.await(t, `"completed"`)
	interrupt()
	for i, want := range []int{0, 0, 130} {
		select {
		case got := <-running[i].code:
			if got != want {
				t.Errorf("%d: exit code %d, want %d: %s", i, got, want, running[i].all())
			}
		case <-ctx.Done():
			t.Fatalf("%d goes on: %s", i, running[i].all())
		}
	}
	followed.await(t, "workflow.completed")
}

// A start or an event whose reply was lost says how to repeat it without doing it twice.
func TestLostReply(t *testing.T) {
	t.Parallel()
	address := redistest.Addr(t)
	link := connectBy(t, address)
	file := written(t, "w.yaml", `document: {dsl: '1.0.3', namespace: d, name: w, version: '1.0.0'}
do:
  - wait: {wait: {hours: 1}}
`)
	if _, stderr, code := flunq(t, nil, "workflows", "register", file, "--redis-url", link.url()); code != 0 {
		t.Fatal(stderr)
	}
	if _, stderr, code := flunq(t, nil, "start", "d.w", "--id", "order-7", "--redis-url", link.url()); code != 0 { // loads the script
		t.Fatal(stderr)
	}
	const started = "io.flunq.execution.started"
	for mark, args := range map[string][]string{
		started:       {"start", "d.w"},
		"seven-pence": {"emit", "--type", "paid", "--data", `"seven-pence"`},
		"for-order-7": {"emit", "--type", "paid", "--data", `"for-order-7"`, "--execution", "order-7"},
		"later-on":    {"start", "d.w", "--after", "1h", "--input", `{"when": "later-on"}`},
	} {
		link.loseReplyTo(mark)
		args = append(args, "--redis-url", link.url())
		_, stderr, code := flunq(t, nil, args...)
		_, id, found := strings.Cut(stderr, "to repeat the command, give it --id ")
		if code != 6 || !found {
			t.Errorf("%v: code %d, %s", args, code, stderr)
			continue
		}
		if mark == started {
			id = strings.TrimSpace(id)
			if _, stderr, code := flunq(t, nil, append(args, "--id", id)...); code != 1 || !strings.Contains(stderr, "exists already") {
				t.Errorf("start again: code %d, %s", code, stderr)
			}
		}
	}
}

// link is a connection to Redis that a test can cut.
type link struct {
	listener net.Listener
	to       string

	lock   sync.Mutex
	down   bool
	delay  time.Duration // of each reply
	mark   string        // the reply to a command that contains it is lost
	losing net.Conn      // the next reply of this server is lost
	open   []net.Conn
}

func connectBy(t *testing.T, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, to: to}
	go l.accept()
	t.Cleanup(func() { l.cut(); listener.Close() })
	return l
}

func (l *link) url() string { return "redis://" + l.listener.Addr().String() }

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.to)
		l.lock.Lock()
		if err != nil || l.down {
			client.Close()
		} else {
			l.open = append(l.open, client, server)
			go l.forward(server, client)
			go l.answer(client, server)
		}
		l.lock.Unlock()
	}
}

// forward forwards commands. Each is in one write of the client.
func (l *link) forward(server, client net.Conn) {
	defer server.Close()
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		l.lock.Lock()
		if l.mark != "" && bytes.Contains(buffer[:n], []byte(l.mark)) {
			l.mark, l.losing = "", server
		}
		l.lock.Unlock()
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// answer forwards replies.
func (l *link) answer(client, server net.Conn) {
	defer client.Close()
	buffer := make([]byte, 1<<20)
	for {
		n, err := server.Read(buffer)
		l.lock.Lock()
		lost, delay := l.losing == server, l.delay
		l.lock.Unlock()
		if err != nil || lost {
			return
		}
		time.Sleep(delay)
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (l *link) loseReplyTo(mark string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.mark = mark
}

func (l *link) cut() {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.down = true
	for _, c := range l.open {
		c.Close()
	}
	l.open = nil
}

func (l *link) mend() {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.down = false
}

// outlasting is a command that runs while the test goes on.
type outlasting struct {
	log // what it prints

	code chan int
}

func begin(ctx context.Context, redis string, args ...string) *outlasting {
	o := &outlasting{code: make(chan int, 1)}
	go func() {
		o.code <- cmd.Execute(ctx, append(args, "--redis-url", redis), cli.Streams{In: strings.NewReader(""), Out: o, Err: o, Env: environment(nil)})
	}()
	return o
}

// await waits until the command has printed a text.
func (o *outlasting) await(t *testing.T, want string) {
	t.Helper()
	if !eventually(t, func() bool { return strings.Contains(o.all(), want) }) {
		t.Fatalf("it did not print %q: %s", want, o.all())
	}
}

func eventually(t *testing.T, holds func() bool) bool {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}
