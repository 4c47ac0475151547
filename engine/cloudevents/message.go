// Package cloudevents converts events to and from Kafka and NATS messages, in the content modes of
// the CloudEvents bindings.
package cloudevents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"flunq.io/flunq/engine/event"
)

// Message is a Kafka record or a NATS JetStream message.
type Message struct {
	Topic     string // for NATS, the subject or subject pattern that it is read with
	Partition int32  // 0 for NATS
	Offset    int64  // for NATS, the sequence number in the stream
	// Log identifies an incarnation of the topic: it changes if the topic is deleted and recreated, or
	// loses its last messages, see AfterLoss.
	Log string

	Key     []byte
	Value   []byte
	Headers []Header

	ID   string     // NATS drops a message whose ID it has seen recently
	Type event.Type // the last part of the subject, for NATS
}

// Header is a header of a Message.
type Header struct{ Name, Value string }

// Place returns the topic, partition and offset of a message: "orders/3/1017".
func (m *Message) Place() string { return m.PartitionName() + "/" + strconv.FormatInt(m.Offset, 10) }

// PartitionName returns the name of a message's partition: "orders/3".
func (m *Message) PartitionName() string { return PartitionName(m.Topic, m.Partition) }

// PartitionName returns the name of a partition of a topic.
func PartitionName(topic string, partition int32) string {
	return topic + "/" + strconv.Itoa(int(partition))
}

// Header returns the value of a header, ignoring the case of its name; "" if there is none.
func (m *Message) Header(name string) string {
	for _, h := range m.Headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// Position is the last message taken from a partition.
type Position struct {
	Log    string // see Message
	Offset int64
}

// Of reports whether the position is in the topic that log identifies, before or after a loss.
func (p Position) Of(log string) bool { return p.Log == log || strings.HasPrefix(p.Log, log+"#") }

// AfterLoss returns a new Log for a topic, so far identified by log, that has lost its last messages, as
// in a crash or an unclean election. The messages that follow reuse offsets of messages that were taken
// before.
func AfterLoss(log string, now time.Time) string {
	return log + "#" + strconv.FormatInt(now.UnixNano(), 36)
}

// ErrRefused is wrapped by the error for a message that the broker will never accept, such as one
// that is too large.
var ErrRefused = errors.New("refused")

// ErrLost is wrapped by errors about messages that a broker has lost, or has removed before they were
// read.
var ErrLost = errors.New("messages are lost")

// Mode is a content mode of the CloudEvents bindings.
type Mode struct {
	Structured bool   // the value is the whole event as JSON; otherwise only its data, and the attributes are headers
	Prefix     string // of the headers of attributes: KafkaPrefix or NATSPrefix
}

// The prefixes of the bindings.
const (
	KafkaPrefix = "ce_"
	NATSPrefix  = "ce-"
)

// EntryHeader is the header with the id of the event's entry in the stream of its tenant. Entries
// of one execution reach readers in the order of these ids, each at least once: a message whose id
// is not greater than the last one with the same key is a duplicate.
const EntryHeader = "flunq-entry"

// OriginAttribute is the attribute with the place of the message that an event was read from. Such
// an event is not sent back.
const OriginAttribute = "flunqorigin"

const (
	contentType     = "content-type"
	structuredType  = "application/cloudevents+json"
	anyStructured   = "application/cloudevents" // JSON in NATS
	batchType       = "application/cloudevents-batch"
	jsonType        = "application/json"
	dataContentType = "datacontenttype"
)

// Encode returns the message for an event that has the given entry id. The key is the execution, so
// its events stay in order, or the event's id if it has no execution.
func (m Mode) Encode(e event.Event, entry string) Message {
	e = published(e)
	attributes, data := attributesOf(e, entry)
	out := Message{Key: []byte(e.Execution), Type: e.Type, ID: e.Tenant + "/" + entry}
	if e.Execution == "" {
		out.Key = []byte(e.ID)
	}
	if m.Structured {
		out.Value = structured(attributes, data)
		out.Headers = []Header{{contentType, structuredType}, {EntryHeader, entry}}
		return out
	}
	out.Value = data
	for i := 0; i < len(attributes); i += 2 {
		name, value := attributes[i], attributes[i+1]
		if name == dataContentType {
			out.Value = encoded(data, value)
		}
		switch {
		case m.Prefix == NATSPrefix:
			out.Headers = append(out.Headers, Header{m.Prefix + name, escape(value)})
		case name == dataContentType:
			out.Headers = append(out.Headers, Header{contentType, value})
		default:
			out.Headers = append(out.Headers, Header{m.Prefix + name, value})
		}
	}
	out.Headers = append(out.Headers, Header{EntryHeader, entry})
	return out
}

// JSON returns an event in the JSON event format of CloudEvents.
func JSON(e event.Event) []byte { return structured(attributesOf(published(e), "")) }

// published returns an event with the type under which it is published.
func published(e event.Event) event.Event {
	if what, ok := strings.CutPrefix(string(e.Type), event.LifecyclePrefix); ok {
		e.Type = event.Type(event.SpecificationPrefix + what)
	}
	return e
}

// attributesOf returns the data of an event, and the names and values of its attributes, including
// those that CloudEvents requires.
func attributesOf(e event.Event, entry string) ([]string, []byte) {
	data := []byte(e.Data)
	e.Data = nil
	e.ID, e.Source = cmp.Or(e.ID, entry), cmp.Or(e.Source, "/flunq")
	fields := e.Fields()
	if e.Ext[dataContentType] == "" && len(data) > 0 {
		media := jsonType
		if !json.Valid(data) {
			media = "text/plain"
		}
		fields = append(fields, dataContentType, media)
	}
	return fields, data
}

// encoded returns the data of an event in its media type: text itself, which the event has as a JSON
// string.
func encoded(data []byte, media string) []byte {
	var text string
	if isJSON(media) || json.Unmarshal(data, &text) != nil {
		return data
	}
	return []byte(text)
}

// structured returns an event as JSON.
func structured(attributes []string, data []byte) []byte {
	members := make(map[string]any, len(attributes)/2+1)
	for i := 0; i < len(attributes); i += 2 {
		members[attributes[i]] = attributes[i+1]
	}
	switch {
	case len(data) == 0:
	case json.Valid(data):
		members["data"] = json.RawMessage(data)
	case utf8.Valid(data):
		members["data"] = string(data)
	default:
		members["data_base64"] = data
	}
	return event.Encode(members)
}

// Decode returns the event in a message. A message without attributes becomes an event of the type
// plain, unless that is "". The event has no tenant; its OriginAttribute is the message's place.
func Decode(m *Message, plain event.Type) (e event.Event, err error) {
	media, _, _ := strings.Cut(m.Header(contentType), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	binary := m.Header(KafkaPrefix+"specversion")+m.Header(NATSPrefix+"specversion") != ""
	switch {
	case media == structuredType, media == anyStructured, len(m.Headers) == 0 && plain == "" && isStructured(m.Value):
		e, err = decodeStructured(m.Value)
	case strings.HasPrefix(media, batchType):
		err = errors.New("a batch of events is not supported: send the events one by one")
	case strings.HasPrefix(media, anyStructured):
		err = fmt.Errorf("an event as %s is not supported: send it as %s", media, structuredType)
	case binary:
		e, err = decodeBinary(m)
	case plain != "":
		e = event.Event{ID: m.Place(), Source: "/" + m.PartitionName(), Type: plain}
		if media == "" && !validJSON(m.Value) {
			media = "text/plain"
		}
		e.Data, err = dataOf(m.Value, media)
	default:
		err = fmt.Errorf("not a CloudEvent: want the headers %sspecversion, %sid, %ssource and %stype, or the header %s: %s",
			KafkaPrefix, KafkaPrefix, KafkaPrefix, KafkaPrefix, contentType, structuredType)
	}
	if err == nil {
		err = check(&e)
	}
	if e.Ext == nil {
		e.Ext = map[string]string{}
	}
	e.Tenant, e.Ext[OriginAttribute] = "", m.Place()
	return e, err
}

// maxAttributes limits the attributes of an external event.
const maxAttributes = 100

// check validates a decoded event.
func check(e *event.Event) error {
	switch {
	case e.ID == "":
		return errors.New("the attribute id is missing")
	case e.Source == "":
		return errors.New("the attribute source is missing")
	case e.Type == "":
		return errors.New("the attribute type is missing")
	case len(e.Ext) > maxAttributes:
		return fmt.Errorf("%d extension attributes, want at most %d", len(e.Ext), maxAttributes)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Ext)) {
		if !event.AttributeName(name) {
			return fmt.Errorf("attribute %.40q: want a name of a to z and 0 to 9", name)
		}
		switch name {
		case event.AttemptAttribute, event.ReplayAttribute, event.FirstFailureAttribute, event.FirstEntryAttribute, event.PackedAttribute:
			return fmt.Errorf("attribute %s is reserved", name)
		}
	}
	return nil
}

func decodeBinary(m *Message) (event.Event, error) {
	var fields []string
	for _, h := range m.Headers {
		name := strings.ToLower(h.Name)
		short, ok := strings.CutPrefix(name, KafkaPrefix)
		value := h.Value
		if !ok {
			if short, ok = strings.CutPrefix(name, NATSPrefix); ok {
				value = unescape(value)
			}
		}
		if !utf8.ValidString(value) && ok {
			return event.Event{}, fmt.Errorf("header %.40q is not UTF-8", h.Name)
		}
		if ok && short != "data" {
			fields = append(fields, short, value)
		}
	}
	e, err := fromFields(fields)
	if err != nil {
		return e, err
	}
	media := cmp.Or(m.Header(contentType), e.Ext[dataContentType])
	delete(e.Ext, dataContentType)
	if media != "" && !isJSON(media) {
		if e.Ext == nil {
			e.Ext = map[string]string{}
		}
		e.Ext[dataContentType] = media
	}
	e.Data, err = dataOf(m.Value, media)
	return e, err
}

// escape encodes an attribute as a header value for the NATS binding: visible ASCII characters
// except " and % stay, all others become %XX.
func escape(value string) string {
	var out strings.Builder
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c > '~' || c == '"' || c == '%' {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// unescape is the inverse of escape. It also accepts quoted values and unescaped ones.
func unescape(value string) string {
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		value = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(value[1 : len(value)-1])
	}
	if plain, err := url.PathUnescape(value); err == nil {
		return plain
	}
	return value
}

// isStructured reports whether a value is an event in structured mode.
func isStructured(value []byte) bool {
	var members struct {
		Version string `json:"specversion"`
	}
	return json.Unmarshal(value, &members) == nil && members.Version != ""
}

// fromFields returns the event with the given attributes.
func fromFields(fields []string) (event.Event, error) {
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "specversion" && fields[i+1] != event.SpecVersion {
			return event.Event{}, fmt.Errorf("specversion is %.20q, want %s", fields[i+1], event.SpecVersion)
		}
	}
	return event.FromFields(fields)
}

func decodeStructured(value []byte) (event.Event, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil {
		return event.Event{}, fmt.Errorf("the value is not a JSON object: %w", err)
	}
	if !utf8.Valid(value) {
		return event.Event{}, errors.New("the value is not UTF-8")
	}
	var fields []string
	var raw []byte
	for _, name := range slices.Sorted(maps.Keys(members)) {
		member := members[name]
		switch name {
		case "data":
			continue
		case "data_base64":
			if err := json.Unmarshal(member, &raw); err != nil {
				return event.Event{}, fmt.Errorf("data_base64: %w", err)
			}
			continue
		}
		if string(member) == "null" { // as if it were missing
			continue
		}
		var text string
		if json.Unmarshal(member, &text) != nil { // a number or a boolean
			text = string(member)
		}
		fields = append(fields, name, text)
	}
	e, err := fromFields(fields)
	if err != nil {
		return e, err
	}
	media := e.Ext[dataContentType]
	if isJSON(media) {
		delete(e.Ext, dataContentType)
	}
	if raw != nil {
		e.Data, err = dataOf(raw, media)
		return e, err
	}
	if data := members["data"]; string(data) != "null" {
		e.Data = data
	}
	return e, nil
}

// isJSON reports whether a media type is JSON. "" counts as JSON.
func isJSON(media string) bool {
	media, _, _ = strings.Cut(media, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "" || media == jsonType || media == "text/json" || strings.HasSuffix(media, "+json")
}

// validJSON reports whether data is JSON, in UTF-8 as it must be: otherwise characters would get lost.
func validJSON(data []byte) bool { return json.Valid(data) && utf8.Valid(data) }

// dataOf converts data of a media type to JSON: text to a string, other bytes to base64.
func dataOf(data []byte, media string) (json.RawMessage, error) {
	switch {
	case len(data) == 0:
		return nil, nil
	case isJSON(media):
		if !validJSON(data) {
			return nil, errors.New("the data is not JSON in UTF-8: want a content-type that says what it is")
		}
		return bytes.TrimSpace(data), nil
	case utf8.Valid(data):
		return event.Encode(string(data)), nil
	default:
		return event.Encode(data), nil
	}
}

// Unreadable returns the fields of a dead letter for a message that is not a valid event.
func Unreadable(m *Message, now time.Time) []string {
	headers := map[string]string{}
	for _, h := range m.Headers {
		headers[h.Name] = strings.ToValidUTF8(h.Value, "�")
	}
	out := []string{"id", m.Place(), "time", now.UTC().Format(time.RFC3339Nano), "headers", string(event.Encode(headers))}
	if len(m.Key) > 0 {
		out = append(out, "key", string(m.Key))
	}
	return append(out, "data", string(m.Value))
}
