package cmd

import "github.com/spf13/cobra"

// limitsTopic is the page about what bounds an execution and a process.
func limitsTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "limits",
		Short: "What bounds an execution, and how to change it",
		Long: `An ordinary deployment meets none of these limits. An error that one of them causes
names it. Those of expressions and schemas are the same everywhere and cannot be changed:
a run, its recording and its replay must agree. They count work, never time.

Of one evaluation of an expression (error: expression, 400):
  expression-steps      5,000,000   steps of jq, or work that is worth them
  expression-recursion  32 MiB      stacks of calls, forks and values
  expression-memory     128 MiB     what it allocates beyond what its steps are worth
  expression-result     16 MiB      its results as JSON
  expression-results    100,000     how many results
  expression-states     20,000      of a regular expression, all repetitions written out

Of one validation with a JSON Schema (error: validation, 400):
  schema-steps          400,000     visits of a part of the schema with a part of the data
  schema-parts          4,000       objects in a schema (the document is invalid)
  schema-states         20,000      of a regular expression (the document is invalid)

Of one JSON value (error: that of the task):
  json-memory           64 MiB      that it takes once it is decoded: some 2,500,000 numbers, or
                                    150,000 objects of one member; inputs, answers, events, outputs
  yaml-parts            400,000     lines, commas, brackets, colons and dashes of a YAML answer

Of one execution (error: runtime, 500, which names the next task):
  LIMIT_HISTORY         700,000     entries of its history, two or three for each task
  LIMIT_HISTORY_MIB     100         MiB of their data
  LIMIT_DESCENDANTS     2,000       open executions that one has begun, with those that these have
                                    begun, and so on: the next one faults, and its parent's task
These are settings of the services; 0 is no limit. An execution keeps the limits of its
history with which it began. The others are not to be changed:
  Tasks                 1,000,000   started in all; 'flunq run' stops at --max-steps
  Depth                 20          of executions that run each other
  Data                  16 MiB      of one task's output as JSON

Of one call (error: communication, 500), not to be changed:
  timeout               60 s        from dialling to the last byte
  response body         10 MiB      decompressed
  headers               64 KiB      of the answer

Of one Redis with a maxmemory:
  LIMIT_REDIS_PERCENT   90          of it in use, above which no execution begins: 'flunq start' ends
                                    with exit code 7; 'run: workflow' faults 15 points earlier. The
                                    rest is for what is under way. At 100 that waits; what operators
                                    ask for and what ends is written all the same

Of one process, which lives on:
  EXECUTOR_CONCURRENCY  16          tasks of one tenant performed at once
  LIMIT_CALLS           128         tasks of all tenants performed at once. Where there are several
                                    tenants, one begins no further task while it has more than a
                                    quarter of the places that are free; the others are served
  LIMIT_MEMORY          192 MiB     of answers over 64 KiB that are read at once, and as much for what
                                    they are decoded to; a tenant has half of each at most. An
                                    answer for which there is no room waits, as long as its call may
                                    take (error: communication, 500)

A worker that computes for 100 ms, or writes 2,048 events of one execution, lets commands
and other tenants go first before it goes on.`,
	}
}
