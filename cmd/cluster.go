package cmd

import "github.com/spf13/cobra"

// clusterTopic is the help page about Redis Cluster.
func clusterTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "cluster",
		Short: "Run on a Redis Cluster, and what a failover may lose",
		Long: `redis-cluster://USER:PASSWORD@host:port,host:port is a Redis Cluster, of which
some nodes are enough; rediss-cluster:// is one with TLS. Every command takes it,
'flunq dev' aside. It needs Redis 6.2 or later.

Placement
  A tenant is the unit: all of its keys are in one slot (tenant:{acme}:events,
  flunq:timers:{acme}), so every transition is one script on one master. More
  masters carry more tenants; one tenant is as fast as one Redis. 'flunq doctor
  -A' shows how many tenants each master has. The scheduler ('flunq help
  scheduler') is in one slot as well, so one master carries all of its events.
  'flunq tenants mv' moves a tenant from a single Redis to a cluster.

Time
  A tenant's timers follow the clock of its own master. None is early by it.

Resharding and failover
  Slots may move under load. When a master dies, its tenants wait until the
  cluster has promoted a replica (cluster-node-timeout, and about a second). No
  write is ever sent twice, except one that a node has refused.

What a failover may lose
  Replication is asynchronous: the last writes. With REDIS_WAIT=N a write counts
  as done when N replicas have it, with REDIS_WAIT=all when all do that are
  connected. If they have not within a second, it counts as failed although it
  was done: a service tries again and finds it done, and a command says so. With
  N, nothing goes on while a master has fewer replicas. REDIS_WAIT works with
  Sentinel and with a single master, too.`,
	}
}
