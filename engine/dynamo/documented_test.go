package dynamo_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"flunq.io/flunq/engine/dynamo"
	"flunq.io/flunq/engine/dynamo/dynamotest"
	"flunq.io/flunq/engine/schedule"
)

// documented is the documented scheduler service: its table, and the records it writes.
type documented struct {
	client *dynamodb.Client
	opts   dynamo.Options
}

func (d documented) createTable(t *testing.T, billing types.BillingMode, more ...types.GlobalSecondaryIndex) {
	t.Helper()
	in := dynamodb.CreateTableInput{
		TableName: &d.opts.Table, BillingMode: billing, GlobalSecondaryIndexes: more,
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange},
		},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS},
		},
	}
	if billing == types.BillingModeProvisioned {
		in.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(100), WriteCapacityUnits: aws.Int64(100)}
	}
	for _, index := range more {
		for _, k := range index.KeySchema {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: k.AttributeName, AttributeType: types.ScalarAttributeTypeS})
		}
	}
	if _, err := d.client.CreateTable(t.Context(), &in); err != nil {
		t.Fatal(err)
	}
	if err := dynamodb.NewTableExistsWaiter(d.client, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay = 10 * time.Millisecond }).
		Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: &d.opts.Table}, time.Minute); err != nil {
		t.Fatal(err)
	}
}

// put stores a record and returns it as an event.
func (d documented) put(t *testing.T, id, status string, due time.Time) schedule.Event {
	t.Helper()
	n := func(at time.Time) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: itoa(at.Unix())}
	}
	s := func(text string) types.AttributeValue { return &types.AttributeValueMemberS{Value: text} }
	created := due.Add(-time.Hour)
	if _, err := d.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &d.opts.Table, Item: map[string]types.AttributeValue{
		"pk": s("event#" + id), "sk": s("meta"), "id": s(id), "topic": s("orders"), "status": s(status),
		"payload": &types.AttributeValueMemberB{Value: []byte("{}")}, "execute_at": n(due), "created_at": n(created), "updated_at": n(created),
	}}); err != nil {
		t.Fatal(err)
	}
	return schedule.Event{
		Content: schedule.Content{Due: due, Topic: "orders", Payload: []byte("{}")},
		ID:      id, Status: schedule.Status(status), Version: 1, Next: due, Created: created, Updated: created,
	}
}

// item returns an item as it is stored.
func (d documented) item(t *testing.T, id string) map[string]types.AttributeValue {
	t.Helper()
	out, err := d.client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &d.opts.Table, ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "event#" + id}, "sk": &types.AttributeValueMemberS{Value: "meta"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// eachDocumented runs a test on each emulator.
func eachDocumented(t *testing.T, test func(t *testing.T, d documented)) {
	t.Helper()
	dynamotest.Each(t, func(t *testing.T, endpoint string) {
		client := dynamodb.New(dynamodb.Options{
			BaseEndpoint: &endpoint, Region: "us-east-1", DisableValidateResponseChecksum: true,
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "dummy", SecretAccessKey: "dummy"}, nil
			}),
		})
		test(t, documented{client, dynamotest.Options(endpoint)})
	})
}

const (
	firstID  = "11111111-1111-4111-8111-111111111111"
	secondID = "22222222-2222-4222-8222-222222222222"
	thirdID  = "33333333-3333-4333-8333-333333333333"
)

// noon is a time of whole seconds.
func noon() time.Time { return time.Date(2040, 1, 1, 12, 0, 0, 0, time.UTC) }

// isDynalite reports whether a test runs on dynalite, which can neither add an index to a table
// nor delete expired items.
func isDynalite(t *testing.T) bool { return strings.HasSuffix(t.Name(), "/dynalite") }

// openOf returns the entries of open events.
func openOf(t *testing.T, table *dynamo.Table) map[string]time.Time {
	t.Helper()
	all := map[string]time.Time{}
	for cursor := ""; ; {
		page, next, err := table.Open(t.Context(), time.Time{}, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			all[e.ID] = e.Next
		}
		if cursor = next; cursor == "" {
			return all
		}
	}
}

// The records of the documented service, in a table that it has created, are events: they are
// found, fired and cancelled.
func TestDocumentedRecords(t *testing.T) {
	t.Parallel()
	eachDocumented(t, func(t *testing.T, d documented) {
		if isDynalite(t) {
			dynamotest.Init(t, d.opts)
		} else {
			d.createTable(t, types.BillingModePayPerRequest)
		}
		first := d.put(t, firstID, "SCHEDULED", noon())
		d.put(t, secondID, "CANCELLED", noon())
		table := dynamotest.Init(t, d.opts)
		if diff := cmp.Diff(map[string]time.Time{firstID: noon()}, openOf(t, table)); diff != "" {
			t.Errorf("the open events after Init differ (-want +got):\n%s", diff)
		}
		third := d.put(t, thirdID, "SCHEDULED", noon()) // Init does not see it
		found, err := table.Get(t.Context(), []string{firstID, thirdID})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]*schedule.Event{&first, &third}, found, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the events differ (-want +got):\n%s", diff)
		}

		early, err := table.Claim(t.Context(), []string{firstID, thirdID}, "p", noon().Add(-time.Millisecond), noon().Add(time.Minute))
		if err != nil || early[0] != nil || early[1] != nil {
			t.Errorf("a millisecond early, Claim returns %v, %v", early, err)
		}
		claimed, err := table.Claim(t.Context(), []string{firstID, secondID, thirdID}, "p", noon(), noon().Add(time.Minute))
		if err != nil || claimed[0] == nil || claimed[1] != nil || claimed[2] == nil {
			t.Fatalf("Claim returns %v, %v: want the two that are SCHEDULED", claimed, err)
		}
		if got := claimed[2]; got.Version != 2 || got.Attempts != 0 || got.Status != schedule.Firing || string(got.Payload) != "{}" {
			t.Errorf("claimed is %+v", got)
		}
		if len(openOf(t, table)) != 2 {
			t.Errorf("open are %v, want both that are FIRING", openOf(t, table))
		}
		took, err := table.Settle(t.Context(), []schedule.Settled{{ID: thirdID, Version: 2, Status: schedule.Fired, Attempts: 1}}, noon().Add(time.Second))
		if err != nil || !took[0] {
			t.Fatalf("Settle returns %v, %v", took, err)
		}
		item := d.item(t, thirdID)
		want := map[string]types.AttributeValue{
			"status": &types.AttributeValueMemberS{Value: "FIRED"}, "topic": &types.AttributeValueMemberS{Value: "orders"},
			"updated_at": &types.AttributeValueMemberN{Value: itoa(noon().Unix() + 1)}, "execute_at": &types.AttributeValueMemberN{Value: itoa(noon().Unix())},
			"expires_at": &types.AttributeValueMemberN{Value: itoa(noon().Add(time.Second + d.opts.Retention).Unix())},
		}
		for name, value := range want {
			if diff := cmp.Diff(value, item[name], cmpopts.IgnoreUnexported(types.AttributeValueMemberN{}, types.AttributeValueMemberS{})); diff != "" {
				t.Errorf("the stored %s differs (-want +got):\n%s", name, diff)
			}
		}
	})
}

// A dead event is kept until it is replayed or dropped; it then expires like any other closed event.
func TestDeadEventIsKept(t *testing.T) {
	t.Parallel()
	eachDocumented(t, func(t *testing.T, d documented) {
		table := dynamotest.Init(t, d.opts)
		d.put(t, firstID, "SCHEDULED", noon())
		claimed, err := table.Claim(t.Context(), []string{firstID}, "p", noon(), noon().Add(time.Minute))
		if err != nil || claimed[0] == nil {
			t.Fatalf("Claim returns %v, %v", claimed, err)
		}
		end := schedule.Settled{ID: firstID, Version: claimed[0].Version, Status: schedule.Dead, Attempts: 1, Failures: 1, Error: "too large"}
		if took, err := table.Settle(t.Context(), []schedule.Settled{end}, noon()); err != nil || !took[0] {
			t.Fatalf("Settle returns %v, %v", took, err)
		}
		if at, expires := d.item(t, firstID)["expires_at"]; expires {
			t.Errorf("the dead event expires at %v", at)
		}
		found, err := table.Get(t.Context(), []string{firstID})
		if err != nil || found[0] == nil {
			t.Fatalf("Get returns %v, %v", found, err)
		}
		dropped := schedule.Change{Kind: schedule.Drop}.Apply(*found[0], noon())
		if replaced, err := table.Replace(t.Context(), dropped); err != nil || !replaced {
			t.Fatalf("Replace returns %v, %v", replaced, err)
		}
		if _, expires := d.item(t, firstID)["expires_at"]; !expires {
			t.Error("the dropped event never expires")
		}
	})
}

// A record of the documented service that is placed again, because its message has arrived from the
// schedule topic, is found by Open afterwards. It can be cancelled once.
func TestDocumentedRecordPlaced(t *testing.T) {
	t.Parallel()
	eachDocumented(t, func(t *testing.T, d documented) {
		table := dynamotest.Init(t, d.opts)
		e := d.put(t, firstID, "SCHEDULED", noon())
		if n := len(openOf(t, table)); n != 0 {
			t.Errorf("%d are open before, want 0", n)
		}
		for range 2 {
			placed, err := table.Put(t.Context(), []schedule.Event{e})
			if err != nil || placed[0].Created || !placed[0].Event.Equal(e.Content) {
				t.Fatalf("Put returns %+v, %v", placed, err)
			}
		}
		if diff := cmp.Diff(map[string]time.Time{firstID: noon()}, openOf(t, table)); diff != "" {
			t.Errorf("the open events differ (-want +got):\n%s", diff)
		}
		untouched := d.put(t, secondID, "SCHEDULED", noon())
		for _, e := range []schedule.Event{e, untouched} {
			cancelled := schedule.Change{Kind: schedule.Cancel}.Apply(e, noon())
			for _, want := range []bool{true, false} {
				if took, err := table.Replace(t.Context(), cancelled); took != want || err != nil {
					t.Errorf("Replace returns %v, %v: want %v", took, err, want)
				}
			}
		}
		if n := len(openOf(t, table)); n != 0 {
			t.Errorf("%d are open after the cancellation, want 0", n)
		}
	})
}

// The documented service can read and cancel stored events.
func TestDocumentedReader(t *testing.T) {
	t.Parallel()
	eachDocumented(t, func(t *testing.T, d documented) {
		table := dynamotest.Init(t, d.opts)
		due := noon().Add(time.Millisecond) // never read as earlier
		e := schedule.Event{
			Content: schedule.Content{Due: due, Topic: "orders", Payload: []byte("{}")},
			ID:      firstID, Status: schedule.Scheduled, Version: 1, Next: due, Created: noon().Add(-time.Hour), Updated: noon().Add(-time.Hour),
		}
		if _, err := table.Put(t.Context(), []schedule.Event{e}); err != nil {
			t.Fatal(err)
		}
		second := d.put(t, secondID, "SCHEDULED", noon().Add(time.Second))
		theirs, ours := d.item(t, second.ID), d.item(t, firstID)
		for name, value := range theirs {
			if name == "pk" || name == "id" {
				continue
			}
			if diff := cmp.Diff(value, ours[name], cmpopts.IgnoreUnexported(types.AttributeValueMemberN{}, types.AttributeValueMemberS{}, types.AttributeValueMemberB{})); diff != "" && name != "created_at" && name != "updated_at" {
				t.Errorf("our %s differs (-theirs +ours):\n%s", name, diff)
			}
		}
		if _, err := d.client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &d.opts.Table, UpdateExpression: aws.String("SET #status = :status"), ExpressionAttributeNames: map[string]string{"#status": "status"},
			Key:                       map[string]types.AttributeValue{"pk": theirs["pk"], "sk": theirs["sk"]},
			ExpressionAttributeValues: map[string]types.AttributeValue{":status": &types.AttributeValueMemberS{Value: "CANCELLED"}},
		}); err != nil {
			t.Fatal(err)
		}
		claimed, err := table.Claim(t.Context(), []string{secondID}, "p", noon().Add(time.Hour), noon().Add(2*time.Hour))
		if err != nil || claimed[0] != nil {
			t.Errorf("an event that the documented service has cancelled is claimed: %v, %v", claimed[0], err)
		}
	})
}

// Check reports what is missing, and Init creates it.
func TestCheck(t *testing.T) {
	t.Parallel()
	eachDocumented(t, func(t *testing.T, d documented) {
		table, err := dynamo.New(t.Context(), d.opts)
		if err != nil {
			t.Fatal(err)
		}
		says := func(err error, want string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want it to say %q", err, want)
			}
		}
		says(errors.Join(table.Check(t.Context())), "has no table "+d.opts.Table+`: "flunq schedule init" creates it`)
		_, err = table.Get(t.Context(), []string{firstID})
		says(err, "has no table "+d.opts.Table)
		if missing := new(types.ResourceNotFoundException); !errors.As(err, &missing) {
			t.Errorf("%v does not wrap the error of the SDK", err)
		}
		d.createTable(t, types.BillingModeProvisioned)
		says(errors.Join(table.Check(t.Context())), "has no index due")
		_, _, err = table.Open(t.Context(), time.Time{}, "")
		says(err, "has no index due")
		if isDynalite(t) {
			says(table.Init(t.Context()), "cannot add the index due")
			if table, err = dynamo.New(t.Context(), dynamotest.Options(d.opts.Endpoint)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // it may be repeated
			if err := table.Init(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(table.Check(t.Context())); isDynalite(t) { // it deletes nothing
			says(err, "keeps closed events for ever")
		} else if err != nil {
			t.Errorf("after Init, Check says %v", err)
		}
	})
}

// A table with another key, or with another index with that name, is rejected.
func TestCheckForm(t *testing.T) {
	t.Parallel()
	eachDocumented(t, func(t *testing.T, d documented) {
		d.createTable(t, types.BillingModePayPerRequest, types.GlobalSecondaryIndex{
			IndexName: aws.String("due"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
			KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("bucket"), KeyType: types.KeyTypeHash}},
		})
		table, err := dynamo.New(t.Context(), d.opts)
		if err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{"Init": table.Init(t.Context()), "Check": errors.Join(table.Check(t.Context()))} {
			if err == nil || !strings.Contains(err.Error(), "want the key due_shard (HASH), due_at (RANGE)") {
				t.Errorf("%s says %v: want it to say which key the index has", name, err)
			}
		}
		d.opts.Table += "-other"
		if _, err := d.client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &d.opts.Table, BillingMode: types.BillingModePayPerRequest,
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		}); err != nil {
			t.Fatal(err)
		}
		if table, err = dynamo.New(t.Context(), d.opts); err != nil {
			t.Fatal(err)
		}
		if err := table.Init(t.Context()); err == nil || !strings.Contains(err.Error(), "has the key id (HASH): want pk (HASH), sk (RANGE)") {
			t.Errorf("Init says %v", err)
		}
	})
}

// Several processes may call Init concurrently.
func TestInitAtOnce(t *testing.T) {
	t.Parallel()
	dynamotest.Each(t, func(t *testing.T, endpoint string) {
		opts := dynamotest.Options(endpoint)
		errs := make(chan error)
		const processes = 4
		for range processes {
			go func() {
				table, err := dynamo.New(t.Context(), opts)
				if err == nil {
					err = table.Init(t.Context())
				}
				errs <- err
			}()
		}
		for range processes {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}
