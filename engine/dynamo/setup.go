package dynamo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"flunq.io/flunq/engine/schedule"
)

// Init creates what is missing: the table, its index of open events, and the deletion of expired
// events. It adds open events that the documented service has stored to the index, for which it
// reads the whole table. It may be repeated at any time.
func (t *Table) Init(ctx context.Context) error {
	table, err := t.describe(ctx)
	if err != nil {
		return err
	}
	if table == nil {
		if err := t.create(ctx); err != nil {
			return err
		}
	}
	if table, err = t.active(ctx, false); err != nil {
		return err
	}
	if err := t.checkKeys(table); err != nil {
		return err
	}
	if dueIndex(table) == nil {
		if err := t.createIndex(ctx, table); err != nil {
			return err
		}
		if table, err = t.active(ctx, true); err != nil {
			return err
		}
	}
	if err := t.checkIndex(table); err != nil {
		return err
	}
	if err := t.expire(ctx); err != nil {
		return err
	}
	return t.adoptAll(ctx)
}

// Check returns an error that lists everything that is missing, and how to create it; and err if
// DynamoDB does not say what there is.
func (t *Table) Check(ctx context.Context) (missing, err error) {
	table, err := t.describe(ctx)
	if err != nil {
		return nil, err
	}
	missing = t.ready(table)
	if table == nil {
		return missing, nil
	}
	on, err := t.expires(ctx)
	if err == nil && !on {
		missing = errors.Join(missing, fmt.Errorf(`table %s at %s keeps closed events for ever: "flunq schedule init" sets %s as its time to live`, t.opts.Table, t.place, attrExpiresAt))
	}
	return missing, err
}

// Ready returns an error that lists everything that the methods of a scheduler.Table need and is
// missing, and how to create it.
func (t *Table) Ready(ctx context.Context) error {
	table, err := t.describe(ctx)
	if err != nil {
		return err
	}
	return t.ready(table)
}

func (t *Table) ready(table *types.TableDescription) error {
	if table == nil {
		return fmt.Errorf(`DynamoDB at %s has no table %s: "flunq schedule init" creates it`, t.place, t.opts.Table)
	}
	var errs []error
	if table.TableStatus != types.TableStatusActive && table.TableStatus != types.TableStatusUpdating {
		errs = append(errs, fmt.Errorf("table %s at %s is %s: want ACTIVE", t.opts.Table, t.place, table.TableStatus))
	}
	return errors.Join(append(errs, t.checkKeys(table), t.checkIndex(table))...)
}

// describe returns the description of the table, or nil if it does not exist.
func (t *Table) describe(ctx context.Context) (*types.TableDescription, error) {
	out, err := t.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &t.opts.Table})
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
		return nil, nil
	}
	if err != nil {
		return nil, t.explain("describe the table", err)
	}
	return out.Table, nil
}

func (t *Table) create(ctx context.Context) error {
	_, err := t.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &t.opts.Table, BillingMode: types.BillingModePayPerRequest,
		KeySchema: tableKeys(), AttributeDefinitions: definitions(),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			{IndexName: aws.String(indexName), KeySchema: indexKeys(), Projection: projection()},
		},
	})
	return t.unlessSimultaneous("create the table", err)
}

// createIndex adds the index of open events to a table of the documented service.
func (t *Table) createIndex(ctx context.Context, table *types.TableDescription) error {
	index := types.CreateGlobalSecondaryIndexAction{IndexName: aws.String(indexName), KeySchema: indexKeys(), Projection: projection()}
	if p := table.ProvisionedThroughput; p != nil && aws.ToInt64(p.WriteCapacityUnits) > 0 { // not billed per request
		index.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: p.ReadCapacityUnits, WriteCapacityUnits: p.WriteCapacityUnits}
	}
	out, err := t.client.UpdateTable(ctx, &dynamodb.UpdateTableInput{
		TableName: &t.opts.Table, AttributeDefinitions: definitions(),
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &index}},
	})
	if err == nil && dueIndex(out.TableDescription) == nil { // dynalite ignores the request
		return fmt.Errorf("DynamoDB at %s cannot add the index %s to the table %s: create another table", t.place, indexName, t.opts.Table)
	}
	return t.unlessSimultaneous("create the index", err)
}

// unlessSimultaneous returns the error of a change, unless another process is making the same change.
func (t *Table) unlessSimultaneous(doing string, err error) error {
	if _, simultaneous := errors.AsType[*types.ResourceInUseException](err); simultaneous || err == nil {
		return nil
	}
	return t.explain(doing, err)
}

// active waits until the table and its indexes can be used; with indexed, also until the
// description includes the index of open events, which may take a while.
func (t *Table) active(ctx context.Context, indexed bool) (*types.TableDescription, error) {
	const shortest, longest = 100 * time.Millisecond, 5 * time.Second
	const limit = time.Hour // filling a new index takes a while
	waiter := dynamodb.NewTableExistsWaiter(t.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = shortest, longest
		o.Retryable = func(_ context.Context, _ *dynamodb.DescribeTableInput, out *dynamodb.DescribeTableOutput, err error) (bool, error) {
			if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
				return true, nil
			}
			if failed, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && failed.HTTPStatusCode() >= http.StatusInternalServerError {
				return true, nil
			}
			if err != nil {
				return false, err
			}
			return out.Table.TableStatus != types.TableStatusActive || indexed && dueIndex(out.Table) == nil || slices.ContainsFunc(out.Table.GlobalSecondaryIndexes,
				func(i types.GlobalSecondaryIndexDescription) bool { return i.IndexStatus != types.IndexStatusActive }), nil
		}
	})
	out, err := waiter.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: &t.opts.Table}, limit)
	if err != nil {
		return nil, t.explain("wait until the table is ready", err)
	}
	return out.Table, nil
}

// expires reports whether DynamoDB deletes expired events.
func (t *Table) expires(ctx context.Context) (bool, error) {
	out, err := t.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &t.opts.Table})
	if err != nil {
		return false, t.explain("describe the time to live", err)
	}
	ttl := out.TimeToLiveDescription
	on := ttl != nil && (ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabled || ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabling)
	if on && aws.ToString(ttl.AttributeName) != attrExpiresAt {
		return false, fmt.Errorf("table %s at %s has the time to live %q: want %s", t.opts.Table, t.place, aws.ToString(ttl.AttributeName), attrExpiresAt)
	}
	return on, nil
}

// expire makes DynamoDB delete expired events. Emulators may not support it, which is not an error.
func (t *Table) expire(ctx context.Context) error {
	on, err := t.expires(ctx)
	if err != nil || on {
		return err
	}
	_, err = t.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &t.opts.Table, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(attrExpiresAt), Enabled: aws.Bool(true)},
	})
	if answered, ok := errors.AsType[smithy.APIError](err); err == nil || ok && answered.ErrorCode() == "UnknownOperationException" {
		return nil
	}
	if on, _ := t.expires(ctx); on { // another process was first
		return nil
	}
	return t.explain("set the time to live", err)
}

// adoptAll adds the open events of the documented service to the index.
func (t *Table) adoptAll(ctx context.Context) error {
	x := newExpression()
	x.values[":scheduled"] = text(string(schedule.Scheduled))
	x.where("attribute_not_exists(%s)", attrVersion)
	x.where("%s = :scheduled", attrStatus)
	in := dynamodb.ScanInput{TableName: &t.opts.Table, FilterExpression: x.condition(), ExpressionAttributeNames: x.names, ExpressionAttributeValues: x.valuesOrNil()}
	for pages := dynamodb.NewScanPaginator(t.client, &in); pages.HasMorePages(); {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return t.explain("read the table", err)
		}
		if err := t.each(ctx, len(out.Items), func(ctx context.Context, i int) error {
			if eventID(out.Items[i]) == "" {
				return nil
			}
			return t.adopt(ctx, out.Items[i])
		}); err != nil {
			return err
		}
	}
	return nil
}

// checkKeys returns an error unless the table has the documented primary key.
func (t *Table) checkKeys(table *types.TableDescription) error {
	if keysOf(table.KeySchema) != keysOf(tableKeys()) {
		return fmt.Errorf("table %s at %s has the key %s: want %s, so give the scheduler a table of its own", t.opts.Table, t.place, keysOf(table.KeySchema), keysOf(tableKeys()))
	}
	return nil
}

// checkIndex returns an error unless the index of open events can be used.
func (t *Table) checkIndex(table *types.TableDescription) error {
	switch index := dueIndex(table); {
	case index == nil:
		return fmt.Errorf(`table %s at %s has no index %s: "flunq schedule init" creates it`, t.opts.Table, t.place, indexName)
	case keysOf(index.KeySchema) != keysOf(indexKeys()) || !projects(index):
		return fmt.Errorf(`the index %s of table %s at %s has another form: want the key %s and the attribute %s; delete it, then "flunq schedule init" creates it`,
			indexName, t.opts.Table, t.place, keysOf(indexKeys()), attrStatus)
	case index.IndexStatus != types.IndexStatusActive:
		return fmt.Errorf("the index %s of table %s at %s is %s: want ACTIVE", indexName, t.opts.Table, t.place, index.IndexStatus)
	}
	return nil
}

func dueIndex(table *types.TableDescription) *types.GlobalSecondaryIndexDescription {
	for i := range table.GlobalSecondaryIndexes {
		if index := &table.GlobalSecondaryIndexes[i]; aws.ToString(index.IndexName) == indexName {
			return index
		}
	}
	return nil
}

func projects(index *types.GlobalSecondaryIndexDescription) bool {
	p := index.Projection
	return p != nil && (p.ProjectionType == types.ProjectionTypeAll || slices.Contains(p.NonKeyAttributes, attrStatus))
}

// keysOf describes a key.
func keysOf(schema []types.KeySchemaElement) string {
	keys := make([]string, len(schema))
	for i, k := range schema {
		keys[i] = fmt.Sprintf("%s (%s)", aws.ToString(k.AttributeName), k.KeyType)
	}
	return strings.Join(keys, ", ")
}

func keySchema(hash, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange},
	}
}

func tableKeys() []types.KeySchemaElement { return keySchema(attrPartitionKey, attrSortKey) }
func indexKeys() []types.KeySchemaElement { return keySchema(attrDueShard, attrDueAt) }

func projection() *types.Projection {
	return &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: []string{attrStatus}}
}

func definitions() []types.AttributeDefinition {
	define := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: kind}
	}
	return []types.AttributeDefinition{
		define(attrPartitionKey, types.ScalarAttributeTypeS), define(attrSortKey, types.ScalarAttributeTypeS),
		define(attrDueShard, types.ScalarAttributeTypeS), define(attrDueAt, types.ScalarAttributeTypeN),
	}
}
