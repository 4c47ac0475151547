package dynamo_test

import (
	"testing"

	"flunq.io/flunq/engine/dynamo/dynamotest"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/scheduler/tabletest"
)

func TestTable(t *testing.T) {
	t.Parallel()
	dynamotest.Each(t, func(t *testing.T, endpoint string) {
		tabletest.Run(t, func(t *testing.T) scheduler.Table { return dynamotest.Table(t, endpoint) })
	})
}
