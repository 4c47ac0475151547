package cmd

import "github.com/spf13/cobra"

// limitsTopic is the help page about the limits of executions and processes.
func limitsTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "limits",
		Short: "The limits of executions and processes",
		Long: `Ordinary deployments do not reach these limits. An error caused by a limit names it. The
limits of expressions and schemas count work, not time. They are the same everywhere and
cannot be changed, so a run, its recording and its replay agree.

Of one evaluation of an expression (error: expression, 400):
  expression-steps      5,000,000  steps of jq, or equivalent work
  expression-recursion  32 MiB     stacks of calls, forks and values
  expression-memory     128 MiB    allocations beyond those that its steps
                                   account for
  expression-result     16 MiB     all results as JSON
  expression-results    100,000    number of results
  expression-states     20,000     states of a regular expression

Of one validation with a JSON Schema (error: validation, 400):
  schema-steps          400,000    checks of a part of the data against a part
                                   of the schema
  schema-parts          4,000      objects in a schema (an invalid document)
  schema-states         20,000     states of a regular expression (likewise)

Of one JSON value (error: that of the task):
  json-memory           64 MiB     in memory once decoded: some 2,500,000
                                   numbers, or 150,000 objects of one member;
                                   applies to inputs, responses, events and
                                   outputs
  depth                 1,000      levels of nesting; 100 in a document, and in
                                   an input that a command reads
  yaml-parts            400,000    lines, commas, brackets, colons and dashes of
                                   a YAML response
  yaml-depth            1,000      levels of nesting of a YAML response

Of one entry of a stream (a dead letter, without the value):
  event-value           64 MiB     of one field, such as an event's data; a
                                   longer value is dropped when it is read
  event-fields          1,000      fields

Of one execution (error: runtime, 500, which names the next task):
  LIMIT_HISTORY         700,000    entries of its history, 2 or 3 for each task
  LIMIT_HISTORY_MIB     100        MiB of their data
  LIMIT_DESCENDANTS     2,000      open child executions at all depths; the
                                   next one faults, and so does the task that
                                   runs it
These are settings of the services; 0 means no limit. An execution keeps the history limits
it began with. The others cannot be changed:
  Tasks                 1,000,000  started in total ('flunq run': --max-steps)
  Depth                 20         of executions that run each other
  Data                  16 MiB     of one task's output as JSON

Of one tenant:
  LIMIT_EXECUTIONS      200,000    open executions. At this limit, 'flunq start'
                                   ends with exit code 7, and a child execution
                                   faults, and so does the task that runs it
                                   (error: runtime, 500)

Of one call (error: communication, 500), cannot be changed:
  timeout               60 s       from dialling to the last byte
  response body         10 MiB     decompressed
  headers               64 KiB     of the response
  redirects             10         of one request, with redirect: true (status:
                                   that of the last response)

Of one Redis with a maxmemory:
  LIMIT_REDIS_PERCENT   90         percent of it in use above which no execution
                                   begins: 'flunq start' ends with exit code 7,
                                   and 'run: workflow' faults 15 points earlier.
                                   The rest is for running executions. At 100
                                   they wait; ends of executions are still
                                   written, and so are cancel, suspend, resume
                                   and retry

Of one process, which continues at its limits:
  EXECUTOR_CONCURRENCY  16         concurrent tasks of one tenant
  LIMIT_CALLS           128        concurrent tasks of all tenants. With several
                                   tenants, one starts no new task while it
                                   has more than a quarter of the free slots
  LIMIT_MEMORY          192 MiB    of responses over 64 KiB that are being
                                   read, and as much again once decoded; a
                                   tenant has at most half of each. A response
                                   without memory waits until its call times out
                                   (error: communication, 500)

After computing for 100 ms, or writing 2,048 events of one execution or 1 MiB of data, a
worker lets commands and other tenants go first. While several tenants have work, one that
writes more than 256 KiB in one go is slowed down to 8 MiB a second.`,
	}
}
