package history_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

var update = flag.Bool("update", false, "write what follows into the cases")

// Each case is a history, an event on each line, and the lifecycle events that follow from it.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	const file = "testdata/lifecycle.txtar"
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(archive.Files); i += 2 {
		var got bytes.Buffer
		l := history.Lifecycle{Version: "0.2.0"}
		for n, line := range strings.Split(strings.TrimSpace(string(archive.Files[i].Data)), "\n") {
			var e struct {
				At   int             `json:"at"`
				Type event.Type      `json:"type"`
				Task string          `json:"task"`
				Data json.RawMessage `json:"data"`
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			for _, out := range l.Add(int64(n)+1, event.Event{
				ID: "any", Source: "/any", Type: event.Prefix + e.Type, Time: time.Unix(int64(1_800_000_000+e.At), 0),
				Tenant: "acme", Workflow: "shop.order", Execution: "7", Task: e.Task, Data: e.Data,
			}) {
				got.Write(append(cloudevents.JSON(out), '\n'))
			}
		}
		want := &archive.Files[i+1]
		if *update {
			want.Data = got.Bytes()
		}
		if diff := cmp.Diff(string(want.Data), got.String()); diff != "" {
			t.Errorf("%s (-want +got, -update rewrites it):\n%s", want.Name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
