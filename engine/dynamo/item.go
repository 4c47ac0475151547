package dynamo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"flunq.io/flunq/engine/schedule"
)

// item is a record as DynamoDB stores it.
type item = map[string]types.AttributeValue

// The attributes of the documented service. Its times are Unix seconds.
const (
	attrPartitionKey = "pk" // S, "event#" and the id
	attrSortKey      = "sk" // S, "meta"
	attrID           = "id"
	attrTopic        = "topic"
	attrExecuteAt    = "execute_at" // N, Due, rounded up
	attrPayload      = "payload"    // B
	attrStatus       = "status"
	attrCreatedAt    = "created_at"
	attrUpdatedAt    = "updated_at"
)

// Further attributes. An attribute whose value is empty or 0 is missing. Times are Unix
// milliseconds, except expires_at: DynamoDB requires seconds.
const (
	attrDueMS     = "execute_ms"
	attrCreatedMS = "created_ms"
	attrUpdatedMS = "updated_ms"
	attrTenant    = "tenant"
	attrKey       = "key"
	attrHeaders   = "headers" // M
	attrVersion   = "version" // N; missing: written by the documented service, counts as 1
	attrAttempts  = "attempts"
	attrFailures  = "failures"
	attrNextMS    = "next_ms"
	attrOwner     = "owner"
	attrLastError = "last_error"
	attrFiredMS   = "fired_ms"
	attrExpiresAt = "expires_at" // of a FIRED or CANCELLED event; DynamoDB deletes it some time later

	// attrFiring is 1 while the event is FIRING. It lets one update also count the attempt of the
	// previous claim, whose outcome is unknown.
	attrFiring = "firing"

	// The keys of the index of open events. Closed events have neither.
	attrDueShard = "due_shard" // S, "0" to "31"
	attrDueAt    = "due_at"    // N, Next of a SCHEDULED event, Lease of a FIRING one
)

// indexName is the index of open events. It is split by a hash of the id, because DynamoDB limits
// writes to one key of an index to 1000 a second, and ordered by time within each shard so that
// overdue events are found whatever their age.
const indexName = "due"

// shards is the number of shards of the index of open events. It may only grow.
const shards = 32

func shard(id string) string { return strconv.Itoa(schedule.Partition(id, shards)) }

const (
	keyPrefix = "event#"
	sortKey   = "meta"
)

// key returns the primary key of an event.
func key(id string) item {
	return item{attrPartitionKey: text(keyPrefix + id), attrSortKey: text(sortKey)}
}

// eventID returns the id of the event that an item holds, or "" if the item holds something else.
func eventID(i item) string {
	r := reader{item: i}
	id, ok := strings.CutPrefix(r.text(attrPartitionKey), keyPrefix)
	if !ok || r.text(attrSortKey) != sortKey {
		return ""
	}
	return id
}

// encode returns the item for an event.
func (t *Table) encode(e *schedule.Event) item {
	i := key(e.ID)
	i[attrID], i[attrTopic], i[attrStatus] = text(e.ID), text(e.Topic), text(string(e.Status))
	i[attrPayload] = &types.AttributeValueMemberB{Value: e.Payload}
	i[attrExecuteAt] = number((e.Due.UnixMilli() + 999) / 1000)
	i[attrCreatedAt], i[attrUpdatedAt] = number(e.Created.Unix()), number(e.Updated.Unix())
	i[attrDueMS], i[attrCreatedMS], i[attrUpdatedMS] = milliseconds(e.Due), milliseconds(e.Created), milliseconds(e.Updated)
	i[attrVersion] = number(e.Version)
	for name, value := range map[string]string{attrTenant: e.Tenant, attrKey: e.Key, attrOwner: e.Owner, attrLastError: e.Error} {
		if value != "" {
			i[name] = text(value)
		}
	}
	for name, value := range map[string]int{attrAttempts: e.Attempts, attrFailures: e.Failures} {
		if value != 0 {
			i[name] = number(int64(value))
		}
	}
	for name, value := range map[string]time.Time{attrNextMS: e.Next, attrFiredMS: e.Published} {
		if !value.IsZero() {
			i[name] = milliseconds(value)
		}
	}
	if len(e.Headers) > 0 {
		headers := item{}
		for name, value := range e.Headers {
			headers[name] = text(value)
		}
		i[attrHeaders] = &types.AttributeValueMemberM{Value: headers}
	}
	switch e.Status {
	case schedule.Scheduled:
		i[attrDueShard], i[attrDueAt] = text(shard(e.ID)), milliseconds(e.Next)
	case schedule.Firing:
		i[attrDueShard], i[attrDueAt], i[attrFiring] = text(shard(e.ID)), milliseconds(e.Lease), number(1)
	case schedule.Fired, schedule.Cancelled:
		i[attrExpiresAt] = number(e.Updated.Add(t.opts.Retention).Unix())
	case schedule.Dead: // does not expire: kept until it is replayed or dropped
	}
	return i
}

// decode returns the event of an item, which may have been written by the documented service.
func decode(i item) (schedule.Event, error) {
	r := reader{item: i}
	e := schedule.Event{
		ID: eventID(i), Status: schedule.Status(r.text(attrStatus)), Version: cmp.Or(r.number(attrVersion), 1),
		Attempts: int(r.number(attrAttempts)), Failures: int(r.number(attrFailures)),
		Owner: r.text(attrOwner), Error: r.text(attrLastError),
		Next: r.time(attrNextMS), Published: r.time(attrFiredMS), Created: r.time(attrCreatedMS), Updated: r.time(attrUpdatedMS),
		Content: schedule.Content{
			Due: r.time(attrDueMS), Tenant: r.text(attrTenant), Topic: r.text(attrTopic), Key: r.text(attrKey),
			Headers: r.textMap(attrHeaders), Payload: r.bytes(attrPayload),
		},
	}
	for name, at := range map[string]*time.Time{attrExecuteAt: &e.Due, attrCreatedAt: &e.Created, attrUpdatedAt: &e.Updated} {
		if at.IsZero() {
			*at = time.Unix(r.number(name), 0).UTC()
		}
	}
	if e.Next.IsZero() {
		e.Next = e.Due
	}
	if e.Status == schedule.Firing {
		e.Lease = r.time(attrDueAt)
	}
	if r.err == nil && !slices.Contains(schedule.Statuses(), e.Status) {
		r.err = fmt.Errorf("status is %q", e.Status)
	}
	if r.err != nil {
		return e, fmt.Errorf("the record of event %.60q cannot be read: %w", e.ID, r.err)
	}
	return e, nil
}

// reader reads the attributes of an item; a missing attribute has the zero value. It keeps the
// first error.
type reader struct {
	item item
	err  error
}

func (r *reader) fail(name string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s has an unexpected type", name)
	}
}

func (r *reader) text(name string) string { return string(r.bytes(name)) }

func (r *reader) bytes(name string) []byte {
	value, err := bytesOf(r.item[name])
	if err != nil {
		r.fail(name)
	}
	return value
}

func bytesOf(value types.AttributeValue) ([]byte, error) {
	switch v := value.(type) {
	case nil, *types.AttributeValueMemberNULL:
		return nil, nil
	case *types.AttributeValueMemberS:
		return []byte(v.Value), nil
	case *types.AttributeValueMemberB:
		return v.Value, nil
	default:
		return nil, errors.New("neither a string nor bytes")
	}
}

func (r *reader) textMap(name string) map[string]string {
	value, ok := r.item[name].(*types.AttributeValueMemberM)
	if !ok {
		return nil
	}
	out := make(map[string]string, len(value.Value))
	for key, v := range value.Value {
		text, err := bytesOf(v)
		if err != nil {
			r.fail(name)
		}
		out[key] = string(text)
	}
	return out
}

func (r *reader) number(name string) int64 {
	switch v := r.item[name].(type) {
	case nil, *types.AttributeValueMemberNULL:
		return 0
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil {
			r.fail(name)
		}
		return n
	default:
		r.fail(name)
		return 0
	}
}

func (r *reader) time(name string) time.Time {
	ms := r.number(name)
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// text returns a string attribute; a string that is not UTF-8 is stored as bytes.
func text(s string) types.AttributeValue {
	if utf8.ValidString(s) {
		return &types.AttributeValueMemberS{Value: s}
	}
	return &types.AttributeValueMemberB{Value: []byte(s)}
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func milliseconds(t time.Time) types.AttributeValue { return number(t.UnixMilli()) }

// expression is the condition and the changes of an update. It names each attribute by a
// placeholder, because many names are reserved.
type expression struct {
	names                     map[string]string
	values                    item
	conditions, sets, removes []string
}

func newExpression() *expression { return &expression{names: map[string]string{}, values: item{}} }

// name returns the placeholder of an attribute.
func (x *expression) name(attribute string) string {
	x.names["#"+attribute] = attribute
	return "#" + attribute
}

func (x *expression) format(format string, attributes []string) string {
	names := make([]any, len(attributes))
	for i, a := range attributes {
		names[i] = x.name(a)
	}
	return fmt.Sprintf(format, names...)
}

// where adds a condition, with attribute names for each %s.
func (x *expression) where(format string, attributes ...string) {
	x.conditions = append(x.conditions, x.format(format, attributes))
}

// compute adds a change, with attribute names for each %s.
func (x *expression) compute(format string, attributes ...string) {
	x.sets = append(x.sets, x.format(format, attributes))
}

// set sets an attribute to a value.
func (x *expression) set(attribute string, value types.AttributeValue) {
	x.values[":new_"+attribute] = value
	x.compute("%s = :new_"+attribute, attribute)
}

// remove removes an attribute.
func (x *expression) remove(attribute string) { x.removes = append(x.removes, x.name(attribute)) }

func (x *expression) condition() *string {
	all := strings.Join(x.conditions, " AND ")
	return &all
}

func (x *expression) update() *string {
	all := "SET " + strings.Join(x.sets, ", ")
	if len(x.removes) > 0 {
		all += " REMOVE " + strings.Join(x.removes, ", ")
	}
	return &all
}

// valuesOrNil returns the values, or nil if there are none: DynamoDB rejects an empty map.
func (x *expression) valuesOrNil() item {
	if len(x.values) == 0 {
		return nil
	}
	return x.values
}

// cursor is the position at which a page of Open begins.
type cursor struct {
	shard int
	id    string // of the last item that was read; "" at the beginning of the shard
	at    int64
}

func parseCursor(s string) (c cursor, err error) {
	if s == "" {
		return c, nil
	}
	if n, err := fmt.Sscanf(s, "%d %d %s", &c.shard, &c.at, &c.id); n == 0 {
		return c, fmt.Errorf("%w %.60q: %w", schedule.ErrCursor, s, err)
	}
	return c, nil
}

// String returns the form that parseCursor reads, or "" after the last shard.
func (c cursor) String() string {
	switch {
	case c.shard >= shards:
		return ""
	case c.id == "":
		return strconv.Itoa(c.shard)
	default:
		return fmt.Sprintf("%d %d %s", c.shard, c.at, c.id)
	}
}

// key returns the key of the index after which the page begins.
func (c cursor) key() item {
	if c.id == "" {
		return nil
	}
	i := key(c.id)
	i[attrDueShard], i[attrDueAt] = text(strconv.Itoa(c.shard)), number(c.at)
	return i
}

// after returns the cursor after the last item that was read, or at the next shard.
func (c cursor) after(last item) cursor {
	if len(last) == 0 {
		return cursor{shard: c.shard + 1}
	}
	r := reader{item: last}
	return cursor{shard: c.shard, at: r.number(attrDueAt), id: eventID(last)}
}
