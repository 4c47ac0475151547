package report_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/cmd/report"
	"flunq.io/flunq/sim/recording"
	"flunq.io/flunq/workflows"
)

// In a real browser the page runs without errors, loads nothing, and shows the data of the
// selection.
func TestBrowser(t *testing.T) {
	t.Parallel()
	b := browse(t, page(t, config(t, "order-saga")))
	for _, step := range []struct{ do, want string }{
		{`document.querySelector('.row[aria-label^="chargeCard"] rect.bar').dispatchEvent(new MouseEvent("click", {bubbles: true}))`, ""},
		{`document.getElementById("pane-title").textContent`, "chargeCard"},
		{`document.getElementById("pane-body").textContent.includes("P-9")`, "true"},
		{`document.querySelector(".node.chosen .name").textContent`, "chargeCard"},
		{`document.querySelector(".l.chosen").textContent.includes("- chargeCard:")`, "true"},
		{`document.querySelector('.node[data-ref="0:/do/0/placeOrder/try/2/bookCourier"]').dispatchEvent(new MouseEvent("click", {bubbles: true}))`, ""},
		{`document.querySelector(".row.chosen .name").textContent`, "bookCourier"},
		{`document.querySelector("#pane-body .status.bad").textContent`, "409"},
		{`document.querySelector('.row[aria-label^="take[1]"]').click(), document.getElementById("pane-title").textContent`, "take[1]"},
		{`[...document.querySelectorAll(".l")].find((l) => l.textContent.includes("- confirm:")).click()`, ""},
		{`document.getElementById("pane-body").textContent.includes("Never reached")`, "true"},
		{`document.querySelector(".events tbody tr").click()`, ""},
		{`document.getElementById("pane-title").textContent`, "Event 1: execution.started"},
		{`document.querySelector('.row[aria-label^="placeOrder"] .fold').click()`, ""},
		{`document.querySelectorAll(".row:not([hidden])").length`, "2"},
		{`document.querySelector(".row").focus(); document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowDown", bubbles: true}))`, "true|false"},
		{`document.activeElement.getAttribute("aria-label").split(",")[0]`, "placeOrder"},
		{`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true, cancelable: true})), document.querySelectorAll(".row:not([hidden])").length`, "15"},
		{`const f = document.querySelector(".filter input"); f.value = "undoAll completed"; f.dispatchEvent(new Event("input")); document.querySelectorAll(".events tbody tr:not([hidden])").length`, "7"},
		{`document.querySelector(".events .found").textContent.startsWith("7 of ")`, "true"},
		{`document.documentElement.scrollWidth <= innerWidth`, "true"},
	} {
		got := b.eval(step.do)
		if step.want != "" && !strings.Contains("|"+step.want+"|", "|"+got+"|") {
			t.Errorf("%s is %s, want %s", step.do, got, step.want)
		}
	}
	b.quiet()
}

// In the graph of every example, no nodes overlap or leave the picture, and every edge ends
// at the rim of its node.
func TestBrowserGraphs(t *testing.T) {
	t.Parallel()
	var runs []*report.Recording
	for _, name := range workflows.Names() {
		r := report.NewRecording(name)
		if _, err := recording.Record(t.Context(), config(t, name), r); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	b := browse(t, write(t, runs...))
	if got, want := b.eval(`document.querySelectorAll(".run .graph svg.picture").length >= document.querySelectorAll(".run").length`), "true"; got != want {
		t.Error("a run has no graph")
	}
	got := b.eval(`
		const wrong = [];
		for (const picture of document.querySelectorAll("svg.picture")) {
			const number = (e, name) => Number(e.getAttribute(name));
			const boxes = [...picture.querySelectorAll(".node > rect:not(.badge)")].map((e) => ({x: number(e, "x"), y: number(e, "y"), w: number(e, "width"), h: number(e, "height")}));
			const says = picture.getAttribute("aria-label");
			for (const [i, a] of boxes.entries()) {
				if (!(a.x >= 0 && a.y >= 0 && a.x + a.w <= number(picture, "width") && a.y + a.h <= number(picture, "height"))) wrong.push(says + " a node leaves the picture");
				for (const o of boxes.slice(i + 1)) if (a.x < o.x + o.w && o.x < a.x + a.w && a.y < o.y + o.h && o.y < a.y + a.h) wrong.push(says + " nodes overlap");
			}
			for (const edge of picture.querySelectorAll(".edge")) {
				const [x, y] = edge.getAttribute("d").split("L").pop().split(",").map(Number);
				const near = (a, b) => Math.abs(a - b) < 0.01;
				const touches = (b) => x >= b.x - 0.01 && x <= b.x + b.w + 0.01 && y >= b.y - 0.01 && y <= b.y + b.h + 0.01 && (near(x, b.x) || near(x, b.x + b.w) || near(y, b.y) || near(y, b.y + b.h));
				if (!boxes.some(touches)) wrong.push(says + " an edge ends beside its node: " + edge.getAttribute("d"));
			}
		}
		wrong.join("\n")`)
	if got != "" {
		t.Error(got)
	}
	b.quiet()
}

// A page runs no scripts in hostile data.
func TestBrowserHostile(t *testing.T) {
	t.Parallel()
	cfg := parsed(t, `document: {dsl: '1.0.3', namespace: test, name: hostile, version: '1.0.0'}
do:
  - "</script><img src=x onerror=alert(1)>": {set: {a: "</script><script>alert(1)</script><img src=x onerror=alert(1)>", "__proto__": {x: 1}, big: 12345678901234567890}}
`)
	b := browse(t, page(t, cfg))
	if got := b.eval(`document.querySelectorAll(".row")[1].click(), document.getElementById("pane-body").textContent.includes("12345678901234567890")`); got != "true" {
		t.Error("the data does not show the number 12345678901234567890")
	}
	if got := b.eval(`document.querySelectorAll("img").length`); got != "0" {
		t.Errorf("the data has added %s images to the page, want 0", got)
	}
	b.quiet()
}

// The page is no wider than a window, whatever its fields contain.
func TestBrowserNarrow(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"words": strings.Repeat("several words ", 15), "one word": strings.Repeat("unbreakable", 15), "address": "https://a.test/" + strings.Repeat("segment/", 20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := filled(t, text).Write(&out); err != nil {
				t.Fatal(err)
			}
			b := browse(t, out.Bytes())
			for _, width := range []int{420, 800, 1400} {
				b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false})
				if got := b.eval(`document.documentElement.scrollWidth <= innerWidth ? "" : document.documentElement.scrollWidth`); got != "" {
					t.Errorf("in a window of %d pixels, the page is %s wide", width, got)
				}
			}
			b.quiet()
		})
	}
}

// patience is how long a step may take on a busy machine.
const patience = 2 * time.Minute

// browser is a page in headless Chromium, controlled through a pipe.
type browser struct {
	t       *testing.T
	out     *os.File
	in      chan message
	session string
	last    int
	loaded  bool
	wrong   []string // errors, and requests beyond the page
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func browse(t *testing.T, content []byte) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && program == "" {
			program = found
		}
	}
	if program == "" {
		t.Skip("NOT TESTED: there is no Chromium on this machine")
	}
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	b := start(t, program)
	target := b.text("Target.createTarget", map[string]any{"url": "about:blank"}, "targetId")
	b.session = b.text("Target.attachToTarget", map[string]any{"targetId": target, "flatten": true}, "sessionId")
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil)
	}
	b.call("Page.navigate", map[string]any{"url": "file://" + file})
	for deadline := time.Now().Add(patience); !b.loaded && time.Now().Before(deadline); {
		b.take(time.Second)
	}
	if !b.loaded {
		t.Fatalf("the page was not loaded within %v", patience)
	}
	return b
}

func start(t *testing.T, program string) *browser {
	t.Helper()
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Its children may write there for a moment after it has ended.
	home, err := os.MkdirTemp("", "flunq-chromium-") //nolint:usetesting // likewise
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--window-size=1280,900", "--remote-debugging-pipe", "--user-data-dir="+home, "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	if err := cmd.Start(); err != nil {
		t.Skipf("NOT TESTED: Chromium does not start: %v", err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	b := &browser{t: t, out: ourOut, in: make(chan message, 1000)}
	go func() {
		defer close(b.in)
		for r := bufio.NewReader(ourIn); ; {
			text, err := r.ReadBytes(0)
			if err != nil {
				return
			}
			var m message
			if json.Unmarshal(text[:len(text)-1], &m) == nil {
				b.in <- m
			}
		}
	}()
	t.Cleanup(func() {
		_ = ourOut.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(home)
	})
	return b
}

// call sends a command and waits for its answer.
func (b *browser) call(method string, params any) json.RawMessage {
	b.t.Helper()
	b.last++
	command := map[string]any{"id": b.last, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.out.Write(append(text, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if m := b.take(time.Second); m.ID == b.last {
			if m.Error != nil {
				b.t.Fatalf("%s: %s", method, m.Error)
			}
			return m.Result
		}
	}
	b.t.Fatalf("%s: no response within %v", method, patience)
	return nil
}

// take takes one message, if one comes in time, and notes what is wrong.
func (b *browser) take(wait time.Duration) message {
	b.t.Helper()
	select {
	case m, ok := <-b.in:
		if !ok {
			b.t.Fatal("Chromium has ended")
		}
		switch m.Method {
		case "Page.loadEventFired":
			b.loaded = true
		case "Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening":
			b.wrong = append(b.wrong, fmt.Sprintf("%s: %s", m.Method, m.Params))
		case "Network.requestWillBeSent":
			if !strings.Contains(string(m.Params), "page.html") {
				b.wrong = append(b.wrong, fmt.Sprintf("a request: %s", m.Params))
			}
		}
		return m
	case <-time.After(wait):
		return message{}
	}
}

func (b *browser) text(method string, params any, member string) string {
	b.t.Helper()
	var result map[string]any
	if err := json.Unmarshal(b.call(method, params), &result); err != nil {
		b.t.Fatal(err)
	}
	return fmt.Sprint(result[member])
}

// eval runs a script in the page and returns its result as text.
func (b *browser) eval(script string) string {
	b.t.Helper()
	var got struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		ExceptionDetails json.RawMessage `json:"exceptionDetails"`
	}
	raw := b.call("Runtime.evaluate", map[string]any{"expression": "{" + script + "}", "returnByValue": true, "userGesture": true})
	if err := json.Unmarshal(raw, &got); err != nil {
		b.t.Fatal(err)
	}
	if got.ExceptionDetails != nil {
		b.t.Errorf("%s: %s", script, got.ExceptionDetails)
	}
	return fmt.Sprint(got.Result.Value)
}

// quiet fails the test if there were errors or requests.
func (b *browser) quiet() {
	b.t.Helper()
	for _, text := range b.wrong {
		b.t.Error(text)
	}
}
