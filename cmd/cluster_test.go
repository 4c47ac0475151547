package cmd_test

import (
	"strings"
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

// A command whose tenant is on a master that is down ends with the code for an unreachable Redis, and
// doctor does not suggest changing a stream that it could not read.
func TestMasterDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	url := cluster.URL()
	cluster.MasterOf(t, "tenant:{default}:events").Kill()
	if _, stderr, code := flunq(t, nil, "timers", "ls", "--redis-url", url); code != 6 {
		t.Errorf("timers ls: code %d, want 6: %s", code, stderr)
	}
	stdout, _, code := flunq(t, nil, "doctor", "--redis-url", url)
	if code != 4 || !strings.Contains(stdout, "? unknown  streams        could not be checked: ") || strings.Contains(stdout, "rename it") {
		t.Errorf("doctor: code %d: %s", code, stdout)
	}
}
