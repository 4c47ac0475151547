package cmd_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/cmd"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
)

// canaries are secrets that occur nowhere else: an ordinary one, and one with characters that
// URLs, JSON and HTML escape.
var canaries = map[string]string{"plain": "Tq7Zx2Wd9JkCANARY", "odd": `Qv8"Lm3&Yp5/Ns6+Hd4=Bt1 Wc`}

// separators matches pieces that consist of escapes only.
var separators = regexp.MustCompile(`^[^a-z0-9]*[a-z0-9]?[^a-z0-9]*[a-z0-9]?[^a-z0-9]*[a-z0-9]?[^a-z0-9]*$`)

// canaryPieces returns what must not be found, and the name of its canary: eight bytes of a
// canary in any encoding, in lower case.
func canaryPieces() map[string]string {
	pieces := map[string]string{}
	add := func(text, of string) {
		text = strings.ToLower(text)
		for i := 0; i+8 <= len(text); i++ {
			if !separators.MatchString(text[i : i+8]) {
				pieces[text[i:i+8]] = of
			}
		}
	}
	for name, secret := range canaries {
		spelled := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), strings.ReplaceAll(url.QueryEscape(secret), "+", "%20")}
		for range 3 {
			for _, text := range spelled {
				quoted, _ := json.Marshal(text)
				spelled = append(spelled, strings.Trim(string(quoted), `"`))
			}
			spelled = spelled[:min(len(spelled), 32)]
		}
		for _, text := range spelled {
			add(text, name)
		}
		for skip := range 3 { // after any other text
			inner := secret[skip : skip+(len(secret)-skip)/3*3]
			add(base64.StdEncoding.EncodeToString([]byte(inner)), name)
		}
	}
	return pieces
}

// canaryHunter reports pieces of canaries in everything that is stored or shown.
type canaryHunter struct {
	t      *testing.T
	pieces map[string]string
}

func (h canaryHunter) look(where string, data []byte) {
	h.t.Helper()
	if len(data) == 0 {
		h.t.Errorf("%s is empty: nothing was looked at", where)
	}
	lower := bytes.ToLower(data)
	for i := 0; i+8 <= len(lower); i++ {
		if name, ok := h.pieces[string(lower[i:i+8])]; ok {
			h.t.Errorf("%s holds a piece of the secret %s: …%s…", where, name, lower[max(0, i-150):min(len(lower), i+60)])
			return
		}
	}
}

func (h canaryHunter) lookAtFile(file string) {
	h.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		h.t.Error(err)
		return
	}
	h.look(filepath.Base(file), data)
}

// lookAtRedis searches all keys and values.
func (h canaryHunter) lookAtRedis(where string, rdb wire.Redis) {
	h.t.Helper()
	ctx := h.t.Context()
	keys, err := rdb.Keys(ctx, "*").Result()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, key := range keys {
		var value any
		switch kind := rdb.Type(ctx, key).Val(); kind {
		case "stream":
			value = rdb.XRange(ctx, key, "-", "+").Val()
		case "hash":
			value = rdb.HGetAll(ctx, key).Val()
		case "zset":
			value = rdb.ZRange(ctx, key, 0, -1).Val()
		case "set":
			value = rdb.SMembers(ctx, key).Val()
		case "list":
			value = rdb.LRange(ctx, key, 0, -1).Val()
		case "string":
			value = rdb.Get(ctx, key).Val()
		case "none": // it is gone
		default:
			h.t.Errorf("%s is a %s", key, kind)
		}
		h.look(where+" "+key, fmt.Append(nil, key, " ", value))
	}
}

// hostile returns documents that try to copy a secret everywhere. S is replaced by the
// secret, U by the URL of an echo server.
func hostile(secret, server string) map[string]string {
	expr := func(jq string) string {
		text, _ := json.Marshal("${ " + strings.ReplaceAll(strings.ReplaceAll(jq, "S", "$secrets."+secret), "U/", server+"/") + " }")
		return string(text)
	}
	var tried strings.Builder
	try := func(task string, jq ...any) {
		for i := range jq {
			jq[i] = expr(jq[i].(string))
		}
		fmt.Fprintf(&tried, "  - t%d: {try: [{a: {"+task+"}}], catch: {as: e, do: [{b: {set: {e: '${ $e.detail }'}}}]}}\n", append([]any{strings.Count(tried.String(), "\n")}, jq...)...)
	}
	for _, jq := range []string{
		"S|tonumber", "S+1", "error(S)", "S|fromjson", "S|keys", "{(S):1}|tonumber", "[limit(40;repeat(S))]|tonumber",
		`S|strptime("%Y")`, `"a"|test(S+"(")`, "S|@base64d", "error({a:S})", "S|@base64|tonumber", "S|@uri|tonumber", "S[3:14]|tonumber",
		"(S*30)|tonumber", `S|split("")|tonumber`, "S|explode|tonumber", "S|ascii_downcase|tonumber",
	} {
		try("set: {x: %s}", jq)
	}
	try("set: {s: %s, k: %s}, export: {as: %s}", "S", "{(S): 1}", "{x: S}")
	try("set: {x: '${ $context.x | tonumber }'}")
	try("set: {x: '${ $context.x + ({} | tojson) | [., .] | tonumber }'}")
	try("emit: {event: {with: {type: %s, source: /x}}}", `"com." + S`)
	try("emit: {event: {with: {type: %s, source: /x}}}", `"com." + (S|@uri)`)
	try("emit: {event: {with: {type: com.x, source: %s, subject: %s, extone: %s, data: %s}}}", `"/" + (S|@uri)`, "S", "S", "{d: S}")
	try("raise: {error: {type: 'https://x.example/e', status: 400, title: %s, detail: %s}}", `"T " + S`, `"D " + S`)
	try("set: {x: %s}, output: {schema: {format: json, document: {properties: {x: {const: 1, maxLength: 2}}}}}", "S")
	try("wait: %s", "S")
	quiet := tried.String()
	for _, call := range []string{
		"endpoint: U/echo, query: {q: S}, headers: {X-Key: S}", "endpoint: U/fail, query: {q: S}", "endpoint: U/redirect, redirect: true, query: {q: S}",
	} {
		parts := regexp.MustCompile(`S`).Split(call, -1)
		task := strings.ReplaceAll(strings.Join(parts, "%s"), "U/", server+"/")
		args := make([]any, len(parts)-1)
		for i := range args {
			args[i] = "S"
		}
		try("call: http, with: {method: get, "+task+"}", args...)
	}
	try("call: http, with: {method: post, endpoint: "+server+"/echo, body: {b: %s}}", "S")
	for _, endpoint := range []string{`"U/fail/" + (S|@uri)`, `"http://[" + S`, `"http://a:" + S + "/%zz"`, `"http://" + S + ".invalid/x"`, `"http://x." + (S|ascii_downcase) + ".invalid/"`} {
		try("call: http, with: {method: get, endpoint: %s}", endpoint)
	}
	for _, path := range []string{"echo", "fail"} {
		try("call: http, with: {method: get, endpoint: {uri: "+server+"/"+path+", authentication: {basic: {username: me, password: %s}}}}", "S")
	}
	head := "document: {dsl: '1.0.3', namespace: can, name: %s, version: '1.0.0'}\nuse: {secrets: [plain, odd]}\ndo:\n%s"
	docs := map[string]string{
		"quiet-" + secret: quiet, "loud-" + secret: tried.String() + "  - last: {set: {x: 1}}\n",
		"fails-" + secret:   "  - a: {set: {x: " + expr("S|tonumber") + "}}\n",
		"raises-" + secret:  "  - a: {raise: {error: {type: 'https://x.example/e', status: 400, title: T, detail: " + expr("S") + "}}}\n",
		"listens-" + secret: "  - a: {listen: {to: {one: {with: {type: com.x, subject: " + expr("S") + "}}}}}\n",
		"starts-" + secret:  "  - a: {run: {workflow: {namespace: can, name: fails-" + secret + ", version: " + expr("S") + ", input: {v: " + expr("S") + "}}}}\n",
	}
	for name, text := range docs {
		docs[name] = fmt.Sprintf(head, name, text)
	}
	return docs
}

// echo starts a server that returns the request.
func echo(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Echo", r.Header.Get("X-Key"))
		switch r.URL.Path {
		case "/echo":
		case "/redirect":
			http.Redirect(w, r, "/fail?"+r.URL.RawQuery, http.StatusFound)
			return
		default:
			w.WriteHeader(http.StatusBadRequest)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"path": r.RequestURI, "headers": r.Header, "body": string(body)})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// log is a buffer that a command writes while others read it.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// address waits until a command has printed an address.
func (l *log) address(t *testing.T, pattern string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(l.all()); found != nil {
			return found[1]
		}
	}
	t.Fatalf("no %s in %s", pattern, l.all())
	return ""
}

// background runs a command until the returned function is called.
func background(t *testing.T, out *log, args ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- cmd.Execute(ctx, args, cli.Streams{In: strings.NewReader(""), Out: out, Err: out, Env: environment(nil)})
	}()
	return func() {
		cancel()
		if code := <-ended; code != 0 && code != 130 {
			t.Errorf("%s: exit code %d: %s", args[0], code, out.all())
		}
	}
}

// No piece of a secret is found in Redis, its files, logs, metrics, health pages,
// recordings, reports and the output of commands, except for the output of a workflow.
func TestCanaries(t *testing.T) {
	t.Parallel()
	hunter := canaryHunter{t, canaryPieces()}
	origin, dir, data := echo(t), t.TempDir(), t.TempDir()
	secrets, err := json.Marshal(canaries)
	if err != nil {
		t.Fatal(err)
	}
	vault := written(t, "secrets.yaml", string(secrets))
	files := map[string]string{}
	for name := range canaries {
		for doc, text := range hostile(name, origin) {
			files[doc] = filepath.Join(dir, doc+".yaml")
			if err := os.WriteFile(files[doc], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	server := redistest.Serve(t, "--appendonly", "yes", "--dir", data)
	redisURL := "redis://" + server.Addr()
	var serveLog, devLog log
	stop := background(t, &serveLog, "serve", "--redis-url", redisURL, "--http", "127.0.0.1:0", "--allow-private", "--secrets", vault, "--log-level", "debug")
	page := "http://" + serveLog.address(t, `"http":"([^"]+)"`)
	stopDev := background(t, &devLog, "dev", dir, "--port", "0", "--data", filepath.Join(data, "dev.json"), "--secrets", vault, "--log-level", "debug")
	devURL := "redis://" + devLog.address(t, `(127\.0\.0\.1:\d+)`)

	rdb, devRedis := server.Client(t), redistest.Connect(t, strings.TrimPrefix(devURL, "redis://"))
	for doc, file := range files {
		for _, to := range []string{redisURL, devURL} {
			if _, stderr, code := flunq(t, nil, "start", file, "--id", doc, "--redis-url", to, "--tenant", "default", "-q"); code != 0 {
				t.Fatal(doc, code, stderr)
			}
		}
	}
	for _, end := range []wire.Redis{rdb, devRedis} {
		for doc := range files {
			if strings.HasPrefix(doc, "listens") {
				continue
			}
			for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
				status := end.HGet(t.Context(), "tenant:default:execution:"+doc, "status").Val()
				if status == "completed" || status == "faulted" {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s is %q", doc, status)
				}
			}
		}
	}
	hunter.lookAtRedis("Redis", rdb)
	hunter.lookAtRedis("the Redis of dev", devRedis)
	if stdout, stderr, code := flunq(t, nil, "health", "--http", strings.TrimPrefix(page, "http://")); stdout != "ready\n" || code != 0 {
		t.Errorf("health: code %d, %q %q", code, stdout, stderr)
	}
	for _, path := range []string{"/metrics", "/health", "/readyz", "/api/health/worker"} {
		resp, err := http.Get(page + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		hunter.look(path, body)
	}
	for doc := range files {
		for _, command := range [][]string{{"show", doc}, {"history", doc, "-o", "jsonl"}} {
			stdout, stderr, _ := flunq(t, nil, append(command, "--redis-url", redisURL, "--tenant", "default")...)
			hunter.look(strings.Join(command, " "), []byte(stdout+stderr))
		}
	}
	var both sync.WaitGroup
	both.Go(stop)
	both.Go(stopDev)
	both.Wait()
	hunter.look("the log of serve", []byte(serveLog.all()))
	hunter.look("the log of dev", []byte(devLog.all()))
	hunter.lookAtFile(filepath.Join(data, "dev.json"))
	kept, err := filepath.Glob(filepath.Join(data, "appendonlydir", "*.incr.aof"))
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	hunter.lookAtFile(kept[0])

	for doc, file := range files {
		recording, report, replayed, searched := filepath.Join(data, doc+".jsonl"), filepath.Join(data, doc+".html"), filepath.Join(data, doc+".replay.html"), filepath.Join(data, doc+".sim.html")
		_, stderr, _ := flunq(t, nil, "run", file, "--secrets", vault, "--record", recording, "--report", report)
		hunter.look("run "+doc, []byte(stderr))
		hunter.lookAtFile(recording)
		hunter.lookAtFile(report)
		stdout, stderr, code := flunq(t, nil, "replay", recording, "--secrets", vault, "--report", replayed)
		if code != 0 {
			t.Errorf("replay %s: code %d: %s%s", doc, code, stdout, stderr)
		}
		hunter.look("replay "+doc, []byte(stdout+stderr))
		hunter.lookAtFile(replayed)
		if !strings.HasPrefix(doc, "raises") {
			continue
		}
		stdout, stderr, _ = flunq(t, nil, "sim", file, "--secrets", vault, "--faults", "none", "--seeds", "1:1", "--report", searched, "--expect", "false")
		hunter.look("sim "+doc, []byte(stdout+stderr))
		hunter.lookAtFile(searched)
	}
}
