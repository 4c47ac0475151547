package store_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

const mark = "\ue000"

// hardSecrets returns secrets that are hard to find: with characters that JSON escapes
// in several ways, nested, and with the seal's own mark.
func hardSecrets() map[string]any {
	return map[string]any{
		"db":     map[string]any{"password": "hunter22", "user": "me"},
		"tokens": []any{"p&ss<w>rd", "quo\"te\\d\nlines", "hunter22-and-more"},
		"odd":    mark + "marked" + mark, "line": "sep\u2028arated",
		"pin": 123456,
	}
}

var hidden = []string{"hunter22", "p&ss<w>rd", "quo\"te\\d\nlines", "hunter22-and-more", mark + "marked" + mark, "sep\u2028arated"}

var sealing = []check{
	{"a secret in an event's source or extension attributes is sealed, and digits in a number are not one", func(t *testing.T, w *environment) {
		ctx := t.Context()
		st := w.another(store.Options{Secrets: map[string]any{"a": "hunter22", "pin": "2345", "word": "true"}})
		sent := historyEvent("p", "com.acme.paid")
		sent.Source, sent.Ext, sent.Data = "/shop/hunter22", map[string]string{"subject": "of hunter22"}, []byte(`{"n":1234567,"ok":true,"text":"2345 true"}`)
		must(t, st.Start(ctx, historyEvent("a", event.ExecutionStarted)))
		got, err := stream.New(st).Read(ctx, reader(store.WorkerGroup, "w1"), 1, 0)
		msgs := got.Messages
		must(t, err)
		c := step(0, &msgs[0])
		c.Publish = []event.Event{sent}
		if got, err := st.Commit(ctx, c); got != store.Committed || err != nil {
			t.Fatal(got, err)
		}
		must(t, st.Publish(ctx, sent))
		dump := w.dump(t)
		if strings.Contains(dump, "hunter22") || !strings.Contains(dump, `{\"n\":1234567,\"ok\":true,`) && !strings.Contains(dump, `{"n":1234567,"ok":true,`) {
			t.Errorf("Redis holds %s", dump)
		}
		got, err = stream.New(st).Read(ctx, reader(store.WorkerGroup, "w1"), 2, 0)
		msgs = got.Messages
		must(t, err)
		for _, m := range msgs {
			if m.Event.Source != sent.Source || m.Event.Ext["subject"] != sent.Ext["subject"] || string(m.Event.Data) != string(sent.Data) {
				t.Errorf("%+v is read, want %+v", m.Event, sent)
			}
		}
		if len(msgs) != 2 {
			t.Errorf("%d events are read", len(msgs))
		}
	}},
	{"Redis never sees a secret, and readers who know it do", func(t *testing.T, w *environment) {
		ctx := t.Context()
		st := w.another(store.Options{Secrets: hardSecrets()})
		e := historyEvent("a", event.ExecutionStarted)
		e.Data = event.Encode(map[string]any{"all": hidden, "raw": json.RawMessage(event.Encode(hidden))})
		must(t, st.Start(ctx, e))
		got, err := stream.New(st).Read(ctx, reader(store.WorkerGroup, "w1"), 1, 0)
		msgs := got.Messages
		must(t, err)
		c := step(0, &msgs[0])
		c.History, c.Publish = []event.Event{e}, []event.Event{e}
		c.Output, c.Error, c.Snapshot = e.Data, e.Data, e.Data
		if got, err := st.Commit(ctx, c); got != store.Committed || err != nil {
			t.Fatal(got, err)
		}
		got, err = stream.New(st).Read(ctx, reader(store.WorkerGroup, "w1"), 1, 0)
		msgs = got.Messages
		must(t, err)
		for _, reason := range hidden {
			mine(t, true)(stream.New(st).Retry(ctx, msgs[0], -1))
			w.fireAll(t)
			got, err = stream.New(st).Read(ctx, reader(store.WorkerGroup, "w1"), 1, 0)
			msgs = got.Messages
			must(t, err)
			_ = reason
		}
		d := event.Dead{Reason: "cannot use " + strings.Join(hidden, " or ")}
		mine(t, true)(stream.New(st).DeadLetter(ctx, msgs[0], d, []event.Event{msgs[0].FailureEvent(event.EventDead, d)}))
		dump := w.dump(t)
		for _, secret := range hidden {
			for _, form := range []string{secret, inner(secret, true), inner(secret, false)} {
				if strings.Contains(dump, form) {
					t.Errorf("Redis holds %q in %s", form, dump)
				}
			}
		}
		x, err := st.Execution(ctx, tenant, execution)
		must(t, err)
		history, err := st.History(ctx, tenant, execution, 0, 10)
		must(t, err)
		for _, got := range [][]byte{x.Output, x.Error, x.Snapshot, history[0].Data} {
			if diff := cmp.Diff(string(e.Data), string(got)); diff != "" {
				t.Error(diff)
			}
		}
		plain, err := w.History(ctx, tenant, execution, 0, 10)
		must(t, err)
		if !json.Valid(plain[0].Data) || !strings.Contains(string(plain[0].Data), "secret.db.password") {
			t.Errorf("without the secrets one reads %s", plain[0].Data)
		}
	}},
}

// inner returns a string as JSON, without the quotes.
func inner(text string, html bool) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(html)
	if err := enc.Encode(text); err != nil {
		panic(err)
	}
	return strings.Trim(strings.TrimSpace(out.String()), `"`)
}

// Sealed text holds no secret, and unsealing restores it,
// whatever marks, tokens or halves of secrets the text itself contains.
func TestSealRoundTrip(t *testing.T) {
	t.Parallel()
	s := store.NewSealer(hardSecrets())
	sealedBefore := string(s.Seal([]byte(`"hunter22"`)))
	parts := []string{mark, mark + mark, "hunter22", "hunter", "22", "-and-more", "secret.db.password#", sealedBefore, "{", `"`, `\`, "é", "x"}
	for _, secret := range hidden {
		parts = append(parts, secret, inner(secret, true), inner(secret, false), inner(inner(secret, true), true), secret[:len(secret)/2])
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text strings.Builder
		for range random.IntN(12) {
			text.WriteString(parts[random.IntN(len(parts))])
		}
		sealed := string(s.Seal([]byte(text.String())))
		if got := string(s.Unseal([]byte(sealed))); got != text.String() {
			t.Fatalf("%q sealed is %q, unsealed %q", text.String(), sealed, got)
		}
		for _, secret := range hidden {
			if strings.Contains(sealed, secret) || strings.Contains(sealed, inner(secret, true)) {
				t.Fatalf("%q sealed is %q, which holds %q", text.String(), sealed, secret)
			}
		}
	}
}

// Without the secret its token cannot be made; unknown tokens are left unchanged.
func TestSealForgery(t *testing.T) {
	t.Parallel()
	s := store.NewSealer(hardSecrets())
	other := store.NewSealer(map[string]any{"db": map[string]any{"password": "another one"}})
	foreign := string(other.Seal([]byte(`["another one"]`)))
	for _, text := range []string{
		foreign, foreign + string(s.Seal([]byte("hunter22"))),
		mark + "secret.db.password" + mark, mark + "secret.db.password#000000000000" + mark, mark + "a", "a" + mark,
	} {
		if got := string(s.Unseal([]byte(text))); strings.Contains(text, "hunter22") || !strings.HasPrefix(got, strings.TrimSuffix(foreign, "x")) && got != text {
			t.Errorf("%q unsealed is %q", text, got)
		}
	}
	adjacent := foreign[2:len(foreign)-2] + string(s.Seal([]byte("hunter22")))
	if got := string(s.Unseal([]byte(adjacent))); !strings.HasSuffix(got, "hunter22") {
		t.Errorf("behind an unknown token: %q", got)
	}
}

// Without secrets nothing changes, and short secrets are ignored.
func TestSealNothing(t *testing.T) {
	t.Parallel()
	for _, secrets := range []map[string]any{nil, {}, {"a": "abc", "n": 12345}} {
		s := store.NewSealer(secrets)
		if s != nil {
			t.Errorf("a sealer for %v", secrets)
		}
		if got := string(s.Unseal(s.Seal([]byte(mark + "abc")))); got != mark+"abc" {
			t.Errorf("got %q", got)
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	text := []byte(`{"items":[` + strings.Repeat(`{"name":"Milou","id":1},`, 100) + fmt.Sprintf("%q]}", "hunter22"))
	for name, s := range map[string]*store.Sealer{"none": nil, "six": store.NewSealer(hardSecrets())} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s.Seal(text)
			}
		})
	}
}
