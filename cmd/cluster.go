package cmd

import "github.com/spf13/cobra"

// clusterTopic is the help page about Redis Cluster.
func clusterTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "cluster",
		Short: "Running on a Redis Cluster, and what a failover may lose",
		Long: `redis-cluster://USER:PASSWORD@host:port,host:port is a Redis Cluster; naming some
of its nodes is enough. rediss-cluster:// uses TLS; 'flunq config --help' says how
to name certificates. Every command except 'flunq dev' accepts it. It needs Redis
6.2 or later.

Placement
  All keys of a tenant are in one slot (tenant:{acme}:events,
  flunq:timers:{acme}), so every transition is one script on one master. More
  masters carry more tenants; one tenant is as fast as one Redis. 'flunq doctor
  -A' shows how many tenants each master has. The scheduler ('flunq help
  scheduler') is in one slot as well, so one master carries all of its events.
  'flunq tenants mv' moves a tenant from a single Redis to a cluster.

Time
  A tenant's timers follow the clock of its own master, and none is early by it.

Resharding and failover
  Slots may move under load. When a master dies, its tenants wait until the
  cluster has promoted a replica (cluster-node-timeout plus about a second). No
  write is sent twice, unless a node has refused it.

What a failover may lose
  The last writes, because replication is asynchronous. With REDIS_WAIT=N a
  write counts as done when N replicas have it; with REDIS_WAIT=all, when all
  connected replicas do. After a second without them it counts as failed,
  although the master has it: a service retries and finds it done, and a
  command says so. With N, all work stops while a master has fewer replicas.
  REDIS_WAIT also works with Sentinel and with a single master.`,
	}
}
