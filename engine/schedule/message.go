package schedule

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Message is a record on a topic of requests.
type Message struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       []byte
	Value     []byte
	Headers   []Header
}

// request is the value of a message. The members up to UpdatedAt are those of the documented
// service; times are in seconds.
type request struct {
	ID        string `json:"id"`
	Topic     string `json:"topic"`
	ExecuteAt int64  `json:"execute_at"`
	Payload   []byte `json:"payload"` // in base64
	Status    Status `json:"status,omitempty"`
	CreatedAt int64  `json:"created_at,omitempty"`
	UpdatedAt int64  `json:"updated_at,omitempty"`

	ExecuteAtMS int64             `json:"execute_at_ms,omitempty"` // takes precedence over ExecuteAt
	Key         string            `json:"key,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Tenant      string            `json:"tenant,omitempty"`
}

// Request returns the value of a message that requests e.
func (e *Event) Request() ([]byte, error) {
	return json.Marshal(request{
		ID: e.ID, Topic: e.Topic, ExecuteAt: e.Due.Unix(), Payload: e.Payload,
		Status: e.Status, CreatedAt: e.Created.Unix(), UpdatedAt: e.Updated.Unix(),
		ExecuteAtMS: e.Due.UnixMilli(), Key: e.Key, Headers: e.Headers, Tenant: e.Tenant,
	})
}

// The headers of a message of etf1/kafka-message-scheduler, whose value is the payload itself.
const (
	epochHeader = "scheduler-epoch" // when to publish, in seconds
	targetTopic = "scheduler-target-topic"
	targetKey   = "scheduler-target-key"
	etf1Prefix  = "scheduler-"
)

// Request returns the id and the content that a message requests, and an error if it cannot be read.
// Missing values are reported by Limits.Check.
func (m *Message) Request() (id string, c Content, err error) {
	for _, h := range m.Headers {
		if h.Name == epochHeader {
			return m.etf1(h.Value)
		}
	}
	var r request
	if err := json.Unmarshal(m.Value, &r); err != nil {
		return "", c, fmt.Errorf("the value is not a request in JSON: %w", err)
	}
	c = Content{Topic: r.Topic, Tenant: r.Tenant, Key: r.Key, Headers: r.Headers, Payload: r.Payload}
	if r.ExecuteAtMS != 0 {
		c.Due, err = unix("execute_at_ms", r.ExecuteAtMS/1000, r.ExecuteAtMS%1000)
	} else if r.ExecuteAt != 0 {
		c.Due, err = unix("execute_at", r.ExecuteAt, 0)
	}
	return strings.ToLower(r.ID), c, err
}

func (m *Message) etf1(epoch string) (id string, c Content, err error) {
	seconds, err := strconv.ParseInt(strings.TrimSpace(epoch), 10, 64)
	if err != nil {
		return "", c, fmt.Errorf("the header %s is %.40q: want a Unix time in seconds", epochHeader, epoch)
	}
	due, err := unix("the header "+epochHeader, seconds, 0)
	if err != nil {
		return "", c, err
	}
	c = Content{Due: due, Key: string(m.Key), Payload: m.Value}
	for _, h := range m.Headers {
		switch {
		case h.Name == targetTopic:
			c.Topic = h.Value
		case h.Name == targetKey:
			c.Key = h.Value
		case !strings.HasPrefix(h.Name, etf1Prefix):
			if c.Headers == nil {
				c.Headers = map[string]string{}
			}
			c.Headers[h.Name] = h.Value
		}
	}
	return m.id(), c, nil
}

// unix returns a time after 1970 and before the year 10000.
func unix(name string, seconds, millis int64) (time.Time, error) {
	const last = 253402300799
	if seconds < 0 || millis < 0 || seconds > last {
		return time.Time{}, fmt.Errorf("%s is %d seconds: want a time after 1970 and before the year 10000", name, seconds)
	}
	return time.Unix(seconds, millis*int64(time.Millisecond)).UTC(), nil
}

// id returns the id of an event whose message names none: the key if it is a UUID, otherwise a UUID
// derived from the message's place, so a message that is read twice is one event, and two
// messages with the same key are two.
func (m *Message) id() string {
	if uuid(string(m.Key)) {
		return strings.ToLower(string(m.Key))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", m.Topic, m.Partition, m.Offset))
	sum[6] = 0x80 | sum[6]&0x0f // version 8 of RFC 9562
	sum[8] = 0x80 | sum[8]&0x3f // and its variant
	return FormatID(sum[:16])
}
