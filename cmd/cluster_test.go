package cmd_test

import (
	"testing"

	"flunq.io/flunq/engine/store/redistest"
)

// A script on a running engine whose tenants are on the masters of a Redis Cluster.
func TestScriptOnCluster(t *testing.T) {
	t.Parallel()
	url := redistest.StartCluster(t).URL()
	serve(t, url, "t-1", "t-2", "t-3", "t-4", "t-5")
	onPage(t, url, "../testdata/script/cluster/cluster.txtar")
}
