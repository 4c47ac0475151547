// Package dynamo keeps the records of scheduled events in a DynamoDB table. No other package knows
// the layout of the table or imports the AWS SDK.
package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"flunq.io/flunq/engine/schedule"
)

// Table is a scheduler.Table in DynamoDB. Its methods may be called concurrently. Any error of a
// method may be temporary. Writes that DynamoDB did not carry out because of throttling have
// already been retried.
type Table struct {
	client *dynamodb.Client
	opts   Options
	place  string // where the table is, for errors
}

// Options configures a Table.
type Options struct {
	Table string
	// Region is the AWS region; "": the one of the SDK's own configuration, or us-east-1.
	Region string
	// Endpoint is a URL; "": the endpoint of the region. One outside of amazonaws.com is assumed to
	// be an emulator: without other credentials, the access key and the secret are "dummy".
	Endpoint  string
	Retention time.Duration // after which DynamoDB deletes FIRED or CANCELLED events
	Parallel  int           // concurrent requests of one call
	Timeout   time.Duration // of one request
}

// Defaults are the options of an ordinary deployment.
func Defaults() Options {
	return Options{
		Table: "scheduler-service-table", Retention: 15 * 24 * time.Hour, Parallel: 32, Timeout: 5 * time.Second,
	}
}

// Check returns an error about an endpoint that is no URL.
func (o Options) Check() error {
	endpoint, err := url.Parse(o.Endpoint)
	if o.Endpoint != "" && (err != nil || endpoint.Host == "" || (endpoint.Scheme != "http" && endpoint.Scheme != "https")) {
		return fmt.Errorf("DYNAMO_ENDPOINT is %q: want http://HOST:PORT or https://HOST", o.Endpoint)
	}
	return nil
}

// New returns a Table. It sends no request to DynamoDB.
func New(ctx context.Context, opts Options) (*Table, error) {
	if opts.Table == "" || opts.Parallel < 1 || opts.Timeout <= 0 || opts.Retention <= 0 {
		return nil, fmt.Errorf("DynamoDB table with options %+v: want a name and positive numbers", opts)
	}
	if err := opts.Check(); err != nil {
		return nil, err
	}
	const calls = 8 // at a time, with Parallel requests each: their connections stay open
	client := awshttp.NewBuildableClient().WithTimeout(opts.Timeout).WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost = calls * opts.Parallel
	})
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client), config.WithDefaultRegion("us-east-1"), config.WithRetryer(retryer), config.WithLogger(logging.Nop{}),
	}
	if opts.Region != "" {
		load = append(load, config.WithRegion(opts.Region))
	}
	emulated := false
	if opts.Endpoint != "" {
		endpoint, err := url.Parse(opts.Endpoint)
		if err != nil {
			return nil, err
		}
		if emulated = !strings.Contains(endpoint.Hostname(), "amazonaws.com"); emulated {
			load = append(load, config.WithEC2IMDSClientEnableState(imds.ClientDisabled)) // do not wait for the metadata service of a machine
		}
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("configure the AWS SDK: %w", err)
	}
	if emulated {
		cfg.Credentials = withDummy(cfg.Credentials)
	}
	dynamo := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		// The SDK reports a wrong checksum for a response that is not read to its end, and closes
		// the connection.
		o.DisableValidateResponseChecksum = true
		if opts.Endpoint != "" {
			o.BaseEndpoint = &opts.Endpoint
		}
	})
	return &Table{dynamo, opts, cmp.Or(opts.Endpoint, cfg.Region)}, nil
}

// retryer repeats only writes that DynamoDB refused because of throttling. The caller must
// repeat all others itself: if the reply to a conditional write is lost, a repetition finds its own
// effect and reports that another writer was first.
func retryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.Retryables = []retry.IsErrorRetryable{
			retry.NoRetryCanceledError{}, retry.RetryableErrorCode{Codes: retry.DefaultThrottleErrorCodes},
		}
		o.MaxBackoff = time.Second
	})
}

// repeatable lets the SDK repeat a request, up to twice, also if its reply is lost: reading again has no
// effect.
func repeatable(o *dynamodb.Options) {
	o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Second })
}

// patient lets the SDK repeat a throttled request for some seconds.
func patient(o *dynamodb.Options) { o.RetryMaxAttempts = 8 }

// withDummy adds dummy credentials, for when the chain has none.
func withDummy(chain aws.CredentialsProvider) aws.CredentialsProvider {
	return aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		found, err := chain.Retrieve(ctx)
		if err != nil && ctx.Err() == nil {
			return aws.Credentials{AccessKeyID: "dummy", SecretAccessKey: "dummy", Source: "dummy"}, nil
		}
		return found, err
	}))
}

// Put stores each event unless one with its id exists. An open event that only the documented
// service knows is added to the index of open events.
func (t *Table) Put(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	placed := make([]schedule.Placed, len(events))
	return placed, t.each(ctx, len(events), func(ctx context.Context, i int) (err error) {
		placed[i], err = t.put(ctx, &events[i])
		return err
	})
}

func (t *Table) put(ctx context.Context, e *schedule.Event) (schedule.Placed, error) {
	x := newExpression()
	x.where("attribute_not_exists(%s)", attrPartitionKey)
	took, err := t.write(ctx, e, x)
	if err != nil || took {
		return schedule.Placed{Event: e, Created: took}, err
	}
	item, err := t.read(ctx, e.ID)
	if err != nil {
		return schedule.Placed{}, err
	}
	if item == nil { // deleted in the meantime
		return schedule.Placed{}, fmt.Errorf("the record of event %s is being deleted", e.ID)
	}
	if err := t.adopt(ctx, item); err != nil {
		return schedule.Placed{}, err
	}
	stored, err := decode(item)
	return schedule.Placed{Event: &stored}, err
}

// write stores an event if the condition holds, and reports whether it did.
func (t *Table) write(ctx context.Context, e *schedule.Event, x *expression) (bool, error) {
	_, err := t.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &t.opts.Table, Item: t.encode(e),
		ConditionExpression: x.condition(), ExpressionAttributeNames: x.names, ExpressionAttributeValues: x.valuesOrNil(),
	})
	return t.conditionHeld("store event "+e.ID, err)
}

// read returns the item of an event, or nil if it does not exist.
func (t *Table) read(ctx context.Context, id string) (item, error) {
	out, err := t.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.opts.Table, Key: key(id), ConsistentRead: aws.Bool(true)}, repeatable)
	if err != nil {
		return nil, t.explain("read event "+id, err)
	}
	return out.Item, nil
}

// adopt adds what Open needs to an item of the documented service.
func (t *Table) adopt(ctx context.Context, i item) error {
	e, err := decode(i)
	if _, ours := i[attrVersion]; err != nil || ours || e.Status != schedule.Scheduled {
		return err
	}
	x := newExpression()
	x.where("attribute_not_exists(%s)", attrVersion)
	x.where("%s = :scheduled", attrStatus)
	x.values[":scheduled"] = text(string(schedule.Scheduled))
	x.set(attrVersion, number(e.Version))
	x.set(attrDueShard, text(shard(e.ID)))
	x.set(attrDueAt, milliseconds(e.Next))
	_, _, err = t.update(ctx, "index", e.ID, x)
	return err
}

// Get returns events in the order of their ids, with nil for each that does not exist.
func (t *Table) Get(ctx context.Context, ids []string) ([]*schedule.Event, error) {
	found := make([]*schedule.Event, len(ids))
	return found, t.each(ctx, len(ids), func(ctx context.Context, i int) error {
		item, err := t.read(ctx, ids[i])
		if err != nil || item == nil {
			return err
		}
		e, err := decode(item)
		found[i] = &e
		return err
	})
}

// Claim makes events FIRING and returns those for which it succeeded.
func (t *Table) Claim(ctx context.Context, ids []string, owner string, now, lease time.Time) ([]*schedule.Event, error) {
	claimed := make([]*schedule.Event, len(ids))
	return claimed, t.each(ctx, len(ids), func(ctx context.Context, i int) error {
		x := newExpression()
		x.values[":scheduled"], x.values[":firing"] = text(string(schedule.Scheduled)), text(string(schedule.Firing))
		x.values[":now"], x.values[":now_seconds"] = milliseconds(now), number(now.Unix())
		x.values[":zero"], x.values[":one"] = number(0), number(1)
		x.where("%s IN (:scheduled, :firing)", attrStatus)
		x.where("(%s <= :now OR attribute_not_exists(%s) AND %s <= :now_seconds)", attrDueAt, attrDueAt, attrExecuteAt)
		x.set(attrStatus, text(string(schedule.Firing)))
		x.set(attrOwner, text(owner))
		x.set(attrDueShard, text(shard(ids[i])))
		x.set(attrDueAt, milliseconds(lease))
		x.set(attrUpdatedAt, number(now.Unix()))
		x.set(attrUpdatedMS, milliseconds(now))
		x.compute("%s = if_not_exists(%s, :one) + :one", attrVersion, attrVersion)
		x.compute("%s = if_not_exists(%s, :zero) + if_not_exists(%s, :zero)", attrAttempts, attrAttempts, attrFiring)
		x.set(attrFiring, number(1))
		item, took, err := t.update(ctx, "claim", ids[i], x)
		if err != nil || !took {
			return err
		}
		e, err := decode(item)
		claimed[i] = &e
		return err
	})
}

// Settle records the outcomes of publications. It tries to record each, whatever happens to the others: an
// event whose outcome is not recorded is published again.
func (t *Table) Settle(ctx context.Context, ends []schedule.Settled, now time.Time) ([]bool, error) {
	took, errs := make([]bool, len(ends)), make([]error, len(ends))
	_ = t.each(ctx, len(ends), func(ctx context.Context, i int) error {
		end := ends[i]
		x := newExpression()
		x.values[":claimed"], x.values[":firing"] = number(end.Version), text(string(schedule.Firing))
		x.where("%s = :firing", attrStatus)
		x.where("%s = :claimed", attrVersion)
		x.set(attrStatus, text(string(end.Status)))
		x.set(attrVersion, number(end.Version+1))
		x.set(attrAttempts, number(int64(end.Attempts)))
		x.set(attrFailures, number(int64(end.Failures)))
		x.set(attrUpdatedAt, number(now.Unix()))
		x.set(attrUpdatedMS, milliseconds(now))
		x.remove(attrOwner)
		if end.Error == "" {
			x.remove(attrLastError)
		} else {
			x.set(attrLastError, text(end.Error))
		}
		switch end.Status {
		case schedule.Fired, schedule.Dead, schedule.Cancelled:
			x.remove(attrDueShard)
			x.remove(attrDueAt)
			x.remove(attrFiring)
			if end.Status != schedule.Dead { // a dead event is kept until it is replayed or dropped
				x.set(attrExpiresAt, number(now.Add(t.opts.Retention).Unix()))
			}
			if end.Status == schedule.Fired {
				x.set(attrFiredMS, milliseconds(now))
			}
		case schedule.Scheduled:
			x.remove(attrFiring)
			fallthrough
		case schedule.Firing:
			x.set(attrNextMS, milliseconds(end.Next))
			x.set(attrDueAt, milliseconds(end.Next))
		}
		_, took[i], errs[i] = t.update(ctx, "settle", end.ID, x, patient)
		return nil
	})
	return took, cmp.Or(errs...)
}

// update changes the item of an event if the conditions hold. It returns the updated item, and
// whether they held.
func (t *Table) update(ctx context.Context, doing, id string, x *expression, options ...func(*dynamodb.Options)) (item, bool, error) {
	out, err := t.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &t.opts.Table, Key: key(id), ReturnValues: types.ReturnValueAllNew,
		ConditionExpression: x.condition(), UpdateExpression: x.update(),
		ExpressionAttributeNames: x.names, ExpressionAttributeValues: x.valuesOrNil(),
	}, options...)
	took, err := t.conditionHeld(doing+" event "+id, err)
	if !took {
		return nil, false, err
	}
	return out.Attributes, true, nil
}

// Replace stores an event in place of the one with the previous version.
func (t *Table) Replace(ctx context.Context, e schedule.Event) (bool, error) {
	x := newExpression()
	x.values[":before"] = number(e.Version - 1)
	x.where("%s = :before", attrVersion)
	took, err := t.write(ctx, &e, x)
	if took || err != nil || e.Version > 2 {
		return took, err
	}
	// The documented service does not use versions.
	x = newExpression()
	x.where("attribute_exists(%s)", attrPartitionKey)
	x.where("attribute_not_exists(%s)", attrVersion)
	return t.write(ctx, &e, x)
}

// List returns a page of all events, in no particular order. It reads the whole table.
func (t *Table) List(ctx context.Context, filter schedule.Filter) (page []schedule.Event, next string, err error) {
	in := dynamodb.ScanInput{TableName: &t.opts.Table}
	if filter.Cursor != "" {
		if err := schedule.CheckID(filter.Cursor); err != nil {
			return nil, "", fmt.Errorf("%w: %w", schedule.ErrCursor, err)
		}
		in.ExclusiveStartKey = key(filter.Cursor)
	}
	if filter.Status != "" {
		x := newExpression()
		x.values[":status"] = text(string(filter.Status))
		x.where("%s = :status", attrStatus)
		in.FilterExpression, in.ExpressionAttributeNames, in.ExpressionAttributeValues = x.condition(), x.names, x.valuesOrNil()
	}
	const limit = 16 // requests per call; each reads a megabyte
	for range limit {
		out, err := t.client.Scan(ctx, &in, repeatable)
		if err != nil {
			return nil, "", t.explain("list events", err)
		}
		for _, item := range out.Items {
			if eventID(item) == "" {
				continue // not a scheduler's item
			}
			e, err := decode(item)
			if err != nil {
				return nil, "", err
			}
			if filter.Matches(&e) {
				page = append(page, e)
			}
			if filter.Limit > 0 && len(page) == filter.Limit {
				return page, e.ID, nil
			}
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
		if next = eventID(in.ExclusiveStartKey); next == "" {
			break
		}
	}
	return page, next, nil
}

// Open returns a page of the entries of open events, ordered by time within each shard. The cursor
// is a shard and the last item that was read from it.
func (t *Table) Open(ctx context.Context, before time.Time, cursor string) (page []schedule.Entry, next string, err error) {
	from, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	for from.shard < shards {
		x := newExpression()
		x.values[":shard"] = text(strconv.Itoa(from.shard))
		x.where("%s = :shard", attrDueShard)
		if !before.IsZero() {
			x.values[":before"] = milliseconds(before)
			x.where("%s < :before", attrDueAt)
		}
		in := dynamodb.QueryInput{
			TableName: &t.opts.Table, IndexName: aws.String(indexName), KeyConditionExpression: x.condition(),
			ExclusiveStartKey: from.key(), Limit: aws.Int32(openPage),
		}
		// An event that the documented service cancelled is still in the index.
		x.values[":scheduled"], x.values[":firing"] = text(string(schedule.Scheduled)), text(string(schedule.Firing))
		in.FilterExpression = aws.String(x.name(attrStatus) + " IN (:scheduled, :firing)")
		in.ExpressionAttributeNames, in.ExpressionAttributeValues = x.names, x.valuesOrNil()
		out, err := t.client.Query(ctx, &in, repeatable)
		if err != nil {
			return nil, "", t.explain("list the open events", err)
		}
		for _, item := range out.Items {
			r := reader{item: item}
			page = append(page, schedule.Entry{ID: eventID(item), Next: r.time(attrDueAt)})
			if r.err != nil {
				return nil, "", r.err
			}
		}
		from = from.after(out.LastEvaluatedKey)
		if len(page) > 0 {
			break
		}
	}
	return page, from.String(), nil
}

// openPage is the length of a page of Open.
const openPage = 1000

// each calls do with 0 to n-1, several calls at a time. After an error, which it returns, it
// starts no more calls.
func (t *Table) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	if n == 1 {
		return do(ctx, 0)
	}
	var next atomic.Int64
	var first sync.Once
	var failed error
	var wg sync.WaitGroup
	for range min(n, t.opts.Parallel) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					first.Do(func() { failed = err })
					next.Store(int64(n))
				}
			}
		})
	}
	wg.Wait()
	return failed
}

// conditionHeld reports whether the condition of a write that returned err was true.
func (t *Table) conditionHeld(doing string, err error) (bool, error) {
	if _, failed := errors.AsType[*types.ConditionalCheckFailedException](err); failed {
		return false, nil
	}
	if err != nil {
		return false, t.explain(doing, err)
	}
	return true, nil
}

// explain returns err with advice on what to do about it.
func (t *Table) explain(doing string, err error) error {
	const initialize = `"flunq schedule init" creates it`
	missing, isMissing := errors.AsType[*types.ResourceNotFoundException](err)
	answered, isAnswered := errors.AsType[smithy.APIError](err)
	unread, isUnread := errors.AsType[*smithy.DeserializationError](err)
	unsent, isUnsent := errors.AsType[*url.Error](err)
	paused, isPaused := errors.AsType[*aws.RequestCanceledError](err) // before a repetition: the SDK does not return what failed
	switch {
	case isMissing:
		return fmt.Errorf("%s: DynamoDB at %s has no table %s; %s: %w", doing, t.place, t.opts.Table, initialize, missing)
	case isAnswered && strings.Contains(answered.ErrorMessage(), "does not have the specified index"):
		return fmt.Errorf("%s: the table %s at %s has no index %s; %s: %w", doing, t.opts.Table, t.place, indexName, initialize, answered)
	case isAnswered:
		return fmt.Errorf("%s: DynamoDB table %s at %s: %w", doing, t.opts.Table, t.place, answered)
	case isUnread:
		return fmt.Errorf("%s: the server at %s does not respond like DynamoDB, check the endpoint: %w", doing, t.place, unread)
	case isUnsent && unsent.Timeout():
		return fmt.Errorf("%s: DynamoDB at %s: no answer in time: %w", doing, t.place, unsent.Err)
	case isUnsent:
		return fmt.Errorf("%s: DynamoDB at %s: %w", doing, t.place, unsent.Err)
	case isPaused:
		return fmt.Errorf("%s: DynamoDB at %s throttles requests, or fails, and there was no time to ask again: %w", doing, t.place, paused)
	default:
		return fmt.Errorf("%s: DynamoDB at %s: %w", doing, t.place, err)
	}
}
