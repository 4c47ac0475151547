package cloudevents_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/event"
)

func request() event.Event {
	return event.Event{
		ID: "o-7/3", Source: "/flunq/worker", Type: event.TaskRequested, Time: time.Date(2026, 11, 24, 12, 0, 0, 123, time.UTC),
		Tenant: "acme", Workflow: "shop.order", Execution: "o-7", Task: "/do/0/charge",
		Data: json.RawMessage(`{"task_id":"/do/0/charge","input":{"order":7}}`), Ext: map[string]string{"definition": "abc"},
	}
}

// The binary mode has the attributes in headers and the data as value, byte for byte.
func TestEncodeBinary(t *testing.T) {
	t.Parallel()
	m := cloudevents.Mode{Prefix: cloudevents.KafkaPrefix}.Encode(request(), "1700-3")
	var got []string
	for _, h := range m.Headers {
		got = append(got, h.Name+": "+h.Value)
	}
	want := []string{
		"ce_id: o-7/3", "ce_source: /flunq/worker", "ce_specversion: 1.0", "ce_type: io.flunq.task.requested",
		"ce_time: 2026-11-24T12:00:00.000000123Z", "ce_tenantid: acme", "ce_workflowid: shop.order", "ce_executionid: o-7",
		"ce_taskid: /do/0/charge", "ce_definition: abc", "content-type: application/json", "flunq-entry: 1700-3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if string(m.Key) != "o-7" || string(m.Value) != string(request().Data) || m.ID != "acme/1700-3" {
		t.Errorf("key %s, value %s, id %s", m.Key, m.Value, m.ID)
	}
	text := request()
	text.Data, text.Ext = json.RawMessage(`"<a b=\"1\"/>"`), map[string]string{"datacontenttype": "application/xml"}
	if m := (cloudevents.Mode{}).Encode(text, "1-1"); string(m.Value) != `<a b="1"/>` {
		t.Errorf("the value of an event with XML is %s, want the XML itself", m.Value)
	}
	alone := request()
	alone.Execution = ""
	if m := (cloudevents.Mode{}).Encode(alone, "1-1"); string(m.Key) != alone.ID {
		t.Errorf("the key of an event without an execution is %s, want its id", m.Key)
	}
}

// In NATS the media type is an attribute like the others, and values consist of visible ASCII characters.
func TestEncodeNATS(t *testing.T) {
	t.Parallel()
	e := event.Event{ID: "Euro € 😀", Source: "/a b", Type: "t", Data: json.RawMessage(`1`), Ext: map[string]string{"note": `100% "sure"`}}
	m := cloudevents.Mode{Prefix: cloudevents.NATSPrefix}.Encode(e, "1-1")
	for name, want := range map[string]string{
		"ce-id": "Euro%20%E2%82%AC%20%F0%9F%98%80", "ce-source": "/a%20b", "ce-note": "100%25%20%22sure%22", "ce-datacontenttype": "application/json", "content-type": "",
	} {
		if got := m.Header(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	for value, want := range map[string]string{`"a \"b\" \\c"`: `a "b" \c`, "a%20b": "a b", "100%": "100%", "%e2%82%ac": "€"} {
		m := cloudevents.Message{Headers: append(headers("ce-specversion=1.0 ce-source=/s ce-type=t"), cloudevents.Header{Name: "ce-id", Value: value})}
		if got, err := cloudevents.Decode(&m, ""); err != nil || got.ID != want {
			t.Errorf("%s is %q, %v, want %q", value, got.ID, err, want)
		}
	}
}

// Decode reads what each mode writes: the same event except for the tenant, which a sender does not
// choose, and with its place.
func TestDecodeReadsWhatEncodeWrites(t *testing.T) {
	t.Parallel()
	events := []event.Event{request(), {ID: "1", Source: "/shop", Type: "com.example.approved"}, {
		ID: "é", Source: "urn:x", Type: "t", Data: json.RawMessage(`"text with \" and ü"`), Ext: map[string]string{"partitionkey": "7"},
	}, {
		ID: "2", Source: "/s", Type: "t", Data: json.RawMessage(`"hello \"you\""`), Ext: map[string]string{"datacontenttype": "text/plain"},
	}}
	for _, mode := range []cloudevents.Mode{{Prefix: cloudevents.KafkaPrefix}, {Prefix: cloudevents.NATSPrefix}, {Structured: true}} {
		for _, want := range events {
			m := mode.Encode(want, "5-0")
			m.Topic, m.Partition, m.Offset = "in", 2, 9
			got, err := cloudevents.Decode(&m, "")
			if err != nil {
				t.Fatal(err)
			}
			want.Tenant = ""
			ext := map[string]string{cloudevents.OriginAttribute: "in/2/9"}
			maps.Copy(ext, want.Ext)
			want.Ext = ext
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%+v: %s", mode, diff)
			}
		}
	}
}

func headers(text string) (out []cloudevents.Header) {
	for part := range strings.SplitSeq(text, " ") {
		if name, value, ok := strings.Cut(part, "="); ok {
			out = append(out, cloudevents.Header{Name: name, Value: value})
		}
	}
	return out
}

// Data that is not JSON becomes a string; a message without attributes is data of a type.
func TestDecodeData(t *testing.T) {
	t.Parallel()
	const own = "ce_specversion=1.0 ce_id=1 ce_source=/s ce_type=t "
	for _, test := range []struct {
		headers, value string
		plain          event.Type
		want           string
	}{
		{own, `{"a": 1}`, "", `{"a": 1}`},
		{own + "content-type=application/json;charset=utf-8", ` 7 `, "", `7`},
		{own + "content-type=text/plain", `hello "you"`, "", `"hello \"you\""`},
		{own + "content-type=application/octet-stream", "\xff\x00", "", `"/wA="`},
		{own, "", "", ``},
		{"", `{"a":1}`, "com.example.raw", `{"a":1}`},
		{"", `plain`, "com.example.raw", `"plain"`},
		{"", `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":2}`, "", `2`},
		{"content-type=application/cloudevents", `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":3}`, "", `3`},
		{"ce-specversion=1.0 ce-id=1 ce-source=/s ce-type=t ce-datacontenttype=text/plain", `x`, "", `"x"`},
		{"Content-Type=application/cloudevents+json", `{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"eyJhIjoxfQ=="}`, "", `{"a":1}`},
		{"content-type=application/cloudevents+json;charset=UTF-8", `{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"x"}`, "", `"x"`},
	} {
		e, err := cloudevents.Decode(&cloudevents.Message{Topic: "in", Headers: headers(test.headers), Value: []byte(test.value)}, test.plain)
		if err != nil || string(e.Data) != test.want {
			t.Errorf("%s %s: data %s, %v, want %s", test.headers, test.value, e.Data, err, test.want)
		}
	}
}

// A null in JSON is an attribute that the event does not have.
func TestDecodeNull(t *testing.T) {
	t.Parallel()
	const value = `{"specversion":"1.0","id":"1","source":"/s","type":"t","time":null,"subject":"null","datacontenttype":null,"note":null,"data":null}`
	e, err := cloudevents.Decode(&cloudevents.Message{Topic: "in", Value: []byte(value)}, "")
	want := event.Event{ID: "1", Source: "/s", Type: "t", Ext: map[string]string{"subject": "null", cloudevents.OriginAttribute: "in/0/0"}}
	if diff := cmp.Diff(want, e); err != nil || diff != "" {
		t.Error(diff, err)
	}
}

// RFC 3339 allows a time with t and z, and a leap second.
func TestDecodeTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Time{
		"2026-11-24t12:00:00.5z":    time.Date(2026, 11, 24, 12, 0, 0, 5e8, time.UTC),
		"2016-12-31T23:59:60.5Z":    time.Date(2017, 1, 1, 0, 0, 0, 5e8, time.UTC),
		"2017-01-01T00:59:60+01:00": time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		value := `{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"` + text + `"}`
		e, err := cloudevents.Decode(&cloudevents.Message{Topic: "in", Value: []byte(value)}, "")
		if err != nil || !e.Time.Equal(want) {
			t.Errorf("%s is %v, %v, want %v", text, e.Time, err, want)
		}
	}
}

// The error for an unreadable message says what is wrong with it.
func TestDecodeUnreadable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ headers, value, want string }{
		{"", `{}`, "not a CloudEvent"},
		{"ce_specversion=1.0 ce_source=/s ce_type=t", "", "attribute id is missing"},
		{"ce_specversion=1.0 ce_id=1 ce_type=t", "", "attribute source is missing"},
		{"ce_specversion=1.0 ce_id=1 ce_source=/s", "", "no attribute type"},
		{"ce_specversion=0.3 ce_id=1 ce_source=/s ce_type=t", "", "specversion"},
		{"ce_specversion=1.0 ce_id=1 ce_source=/s ce_type=t ce_time=noon", "", "attribute time"},
		{"ce_specversion=1.0 ce_id=1 ce_source=/s ce_type=t ce_time=2016-12-31T23:60:00Z", "", "attribute time"},
		{"ce_specversion=1.0 ce_id=1 ce_source=/s ce_type=t ce_time=2016-12-31T23:59:60", "", "attribute time"},
		{"ce_specversion=1.0 ce_id=1 ce_source=/s ce_type=t ce_a-b=1", "", "a-b"},
		{"ce_specversion=1.0 ce_id=1 ce_source=/s ce_type=t ce_attempt=9", "", "reserved"},
		{"ce_specversion=1.0 ce_id=1 ce_source=/s ce_type=t", "{", "not JSON"},
		{"ce-specversion=1.0 ce-id=%C0%A0 ce-source=/s ce-type=t", "", "not UTF-8"},
		{"ce_specversion=1.0 ce_id=1 ce_source=/s ce_type=t", "\"\xe9\"", "not JSON in UTF-8"},
		{"content-type=application/cloudevents+json", "[", "not a JSON object"},
		{"content-type=application/cloudevents+json", `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":"` + "\xe9\"}", "not UTF-8"},
		{"content-type=application/cloudevents-batch+json", "[]", "batch"},
		{"content-type=application/cloudevents+avro", "x", "send it as application/cloudevents+json"},
	} {
		_, err := cloudevents.Decode(&cloudevents.Message{Headers: headers(test.headers), Value: []byte(test.value)}, "")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q %q: %v, want an error with %q", test.headers, test.value, err, test.want)
		}
	}
}

// Whatever the bytes, Decode answers: an event that has what CloudEvents requires and data that
// is JSON, or an error.
func FuzzDecode(f *testing.F) {
	for _, mode := range []cloudevents.Mode{{Prefix: cloudevents.KafkaPrefix}, {Structured: true}} {
		m := mode.Encode(request(), "1-1")
		var text []string
		for _, h := range m.Headers {
			text = append(text, h.Name+"="+h.Value)
		}
		f.Add(strings.Join(text, " "), m.Value)
	}
	f.Fuzz(func(t *testing.T, head string, value []byte) {
		e, err := cloudevents.Decode(&cloudevents.Message{Headers: headers(head), Value: value}, "plain")
		if err == nil && (e.ID == "" || e.Source == "" || e.Type == "" || len(e.Data) > 0 && !json.Valid(e.Data)) {
			t.Errorf("%q %q: %+v", head, value, e)
		}
	})
}
