package table_test

import (
	"testing"

	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/scheduler/tabletest"
	"flunq.io/flunq/sim/table"
)

func TestTable(t *testing.T) {
	t.Parallel()
	tabletest.Run(t, func(*testing.T) scheduler.Table { return table.New(table.Options{}) })
}
