package cmd

import "github.com/spf13/cobra"

// inputsTopic is the help page about events for one execution.
func inputsTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "inputs",
		Short: "Events for one execution, now or later",
		Long: `An event is received by every execution that listens for it. An input is an
event for one execution. It can wait, and it has a key:

  flunq emit --execution order-7 --type com.shop.unpaid --after PT30M --key paid

  --after DURATION, --at TIME   when it is delivered (default: now)
  --key KEY                     a later input with the same key replaces it
  --on-reject WHAT              what happens if no task listens for it: drop
                                (default), park=DURATION (keep it for a task
                                that begins to listen), dead-letter

  flunq timers ls --kind input                        list pending inputs
  flunq timers cancel --execution order-7 --key paid  cancel one
  flunq start shop.order --id order-8 --after P1D     start an execution later

In a workflow
  An emit task sends an input if its event has the attributes below. In
  workflows/heartbeat.yaml each heartbeat postpones the alarm:

    - arm:
        emit:
          event:
            with:
              type: com.example.device.silent
              flunqafter: PT1M
              flunqkey: alarm

  flunqafter, flunqat, flunqkey and flunqonreject are as above. flunqexecution
  names another execution of the tenant; the default is the one that emits.
  flunqcancel: KEY cancels the input with that key. Events in mocks may also
  have these attributes; without flunqexecution they go to the execution of
  the run.

In a program
  An event io.flunq.timer.scheduled in the tenant's stream with the data
    {"kind": "input", "execution_id": "order-7", "fire_at": "2026-01-31T08:00:00Z",
     "key": "paid", "input": {"type": "com.shop.unpaid", "data": {}}}
  sets one, and io.flunq.timer.cancelled with kind, execution_id and key cancels
  it. All services must run a version that supports inputs.

Outcomes
  accepted           a task took it; the history has event.received
  rejected           no task listened for it, see --on-reject
  parked             no task has listened yet; it is delivered when one does
  already_completed  the execution has ended. Its pending inputs are cancelled
                     when it ends.
  An input for an unknown execution becomes a dead letter. The metric
  timer_inputs_total counts the outcomes; with RECORD_INPUT_OBSERVATIONS=true
  the workers record them for 'flunq inputs ls'. An input is never early, and
  an execution takes it once, even if it is delivered twice.`,
	}
}
