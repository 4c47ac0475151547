package workload

// mutants returns bugs that only the Go code of the engine can have. They are found by the
// invariants of every run, by documents with a known outcome, and by workloads.
func mutants() []mutant {
	return []mutant{
		{"a poison candidate is not isolated", "delivery Isolation.Enter case 2", never, "a call that crashes processes is made in isolation", 0},
		{"one crash makes a poison candidate", "delivery PoisonCandidate >= 1 operand 2", replaced("1"), "a message that crashes five processes is dead-lettered", 0},
		{"Retry-After is ignored", "executor/http retryAfter if 1", always, "Retry-After keeps a breaker open", 0},
		{"moved timers keep their due time", "event Timer.Due case 1", never, "an operator moves timers", 0},
		{"timer requests for a key have no order", "store Message.Order call 6 arg 1", zeroed, "the last timer request for a key counts", 0},

		{"an input reaches the execution that sends it", "decide transition.inputRequest if 2", always, "an input is for one execution", 0},
		{"an input that nobody takes is not parked", "worker Service.rejectInput case 3", always, "a parked input waits for a task that listens", 0},
		{"an input is delivered to all listeners", "worker Service.deliver return 2", preceded(`if fired, ok := decide.InputOf(m.Event); ok {
			if in, err := fired.ReadInput(); err == nil {
				err := s.store.EachListener(ctx, m.Tenant, string(in.Type), func(id string) error {
					e := decide.Received(in, id)
					e.ID, e.Time = fired.InputID(), m.Event.Time
					return s.transition(ctx, m, e, false)
				})
				return cmp.Or(err, stream.New(s.store).AcknowledgeOwned(ctx, m))
			}
		}`), "an input is for one execution", 0},
		{"a reject is acknowledged first", "worker Service.commit return 1", preceded(`if c.Input != nil && c.Input.Outcome != store.InputAccepted {
			if err := stream.New(s.store).AcknowledgeOwned(ctx, *c.Message); err != nil {
				return 0, err
			}
		}`), "a parked input waits for a task that listens", 0},
		{"an input is taken twice", "decide State.Take if 2; decide machine.onReceived if 1", never, "an input is taken once", 0},
		{"an input has no key", "decide inputTimer if 6", always, "an input of a key moves the one before", 0},

		{"a stopping process does not hand over the next timer", ". Engine.Release if 2", never, "a stopping timer service hands over the next timer", 16},

		{"a timer with a different time is the same", "decide sameTimer && 1 operand 2", always, "jitter spreads retries", 2},
		{"a cancelled timer stays with its task", "decide transition.cancelKind return 2 value 1", never, "", 1},
		{"a retried task keeps the context of the failure", "decide machine.restart if 1", never, "a retried task starts with its original context", 0},
		{"a retry loses the context", "decide machine.restart assign 1 value 1", zeroed, "a retried task starts with its original context", 0},

		{"a failing branch ends a competing fork", "decide machine.branchFailed if 1", never, "", 186},
		{"losing branches continue", "decide machine.branchOver call 1", removed, "", 9},
		{"a branch undoes what another exported", "decide rebase if 4", always, "", 81},
		{"a branch exports to all branches", "decide evaluator.setContext return 1", removed, "", 163},
		{"one retry too many", "decide machine.retry >= 1 operand 2", added("1"), "", 3},
		{"a backoff grows too fast", "decide factor return 2 value 1", scaled("2"), "", 22},
		{"a catch catches all errors", "decide evaluator.catches if 1", never, "", 1},
		{"exceptWhen is ignored", "decide evaluator.conditions if 3", never, "", 42},
		{"the timeout of an attempt is not cancelled", "decide machine.caught call 1", removed, "", 1},
		{"a retry comes after limit.duration", "decide machine.retry if 4", never, "retries come on time", 0},
		{"there is no jitter", "decide transition.retryAt if 3", always, "jitter spreads retries", 0},
		{"catch.then is ignored", "decide machine.listDone assign 3", removed, "", 75},
		{"an index starts at 1", "decide machine.iterate call 3 arg 2", added("1"), "", 3},
		{"while is evaluated without an iteration", "decide machine.iterate call 6 arg 2", zeroed, "", 39},
		{"a switch always takes the default case", "decide choose if 3", never, "", 1},
		{"exit continues", "decide machine.childDone case 1", `@, plantedOr($, "continue", "exit")`, "", 1},
		{"end loses the output", "decide machine.unwind call 2 arg 2", zeroed, "", 80},
		{"a jump back starts no new visit", "decide machine.childDone if 2", never, "", 3},
		{"export sees the output before output.as", "decide evaluator.export call 2 arg 3", replaced("&@{call 2 arg 2}"), "", 5},
		{"a task has no time limit", "decide transition.prepare if 5", always, "", 3},
		{"the tasks inside a cancelled task continue", "decide closer.drop call 1", removed, "", 5},
		{"a child of a cancelled task continues", "decide closer.drop if 2", never, "", 40},
		{"the timeout of the workflow is not cancelled", "decide closer.end call 2", removed, "", 1},
		{"a parent does not receive the end of a child", "decide transition.publishEnd if 1", always, "", 22},
		{"listen: all counts an event twice", "decide listener.match if 2", never, "", 197},
		{"until is evaluated one event late", "decide machine.consume call 10 arg 2", replaced("(@)[:len(@)-1]"), "", 37},
		{"no execution listens for the until event", "decide listener.listenTypes if 1", never, "", 6},
		{"an execution that ends unsubscribes others", "decide listener.unlisten if 3", always, "an execution that ends does not unsubscribe others", 0},
		{"an ended execution still listens", "decide listener.unlisten call 5", removed, "", 3},
		{"a redelivered event counts twice", "decide machine.onReceived if 1", never, "a snapshot contains everything before it", 0},
		{"correlation keys are ignored", "decide listener.correlates case 2", never, "a snapshot contains everything before it", 0},
		{"a suspended execution computes", "decide State.Ready return 1 && 2 operand 2", always, "a decision larger than a commit is continued", 2},
		{"a suspended execution continues", "decide machine.handler if 1", always, "a suspended execution keeps the order of its events", 0},
		{"a snapshot loses pending computations", "decide State.adopt if 1", never, "a decision larger than a commit is continued", 2},
		{"time runs backwards", "decide State.Apply if 2", always, "timers are nearly simultaneous", 2},
		{"a snapshot loses visits", "decide Restore call 6 arg 1", forgotten("visit"), "", 10},
		{"a snapshot loses variables", "decide Restore call 6 arg 1", forgotten("variables"), "requests are sent as the document says", 2},
		{"a snapshot loses contexts", "decide Restore call 6 arg 1", forgotten("context"), "", 4},
		{"a snapshot loses timers", "decide Restore call 6 arg 1", forgotten("timers"), "", 2},
		{"a snapshot loses received events", "decide Restore call 6 arg 1", forgotten("seen", "keys"), "a snapshot contains everything before it", 0},
		{"a snapshot loses the failed task", "decide Restore call 6 arg 1", forgotten("faulted"), "a faulted execution continues where it failed", 2},
		{"a snapshot loses deferred events", "decide Restore call 6 arg 1", forgotten("deferred"), inEveryMessage, 0},
		{"an attempt has no input", "decide machine.attempt assign 2 value 1", zeroed, "", 9},
		{"a loop has no output", "decide machine.iterate call 2 arg 2", zeroed, "", 3},
		{"attempts continue after their timeout", "decide machine.attemptTimedOut assign 2 value 1", never, "", 79},
		{"correlation keys are not kept", "decide listener.remember assign 2", removed, "a snapshot contains everything before it", 0},
		{"children share an id", "decide machine.beginRun assign 4", removed, "", 62},
		{"deferred events change their order", "decide transition.deferEvent assign 1 value 1", "plantedLastFirst($, @)", "a suspended execution keeps the order of its events", 0},
		{"a retry loses timeouts", "decide machine.restoreTimers if 1", never, "a faulted execution continues where it failed", 0},
		{"a retry reuses the run", "decide Node.markRetried if 1", never, "a faulted execution continues where it failed", 0},
		{"end in a branch is ignored", "decide machine.branchOver case 2", never, "end in a branch ends the workflow", 0},
		{"end in the winning branch is ignored", "decide endOnly if 1", never, "", 188},
		{"a skipped branch has no output", "decide machine.beginFork call 13 arg 3", zeroed, "", 81},

		{"listen: all ends after two events", "decide machine.consume assign 6 == 1 operand 2", replaced("min(2, @)"), "a listen task receives exactly its events", 0},
		{"a filter accepts missing data", "decide contains if 3", never, "a listen task receives exactly its events", 0},
		{"foreach continues to listen", "decide machine.consume if 2", never, "a listen task receives exactly its events", 0},
		{"a linear backoff does not grow", "decide factor return 1 value 1", replaced("1"), "retries come on time", 0},
		{"jitter starts at zero", "decide transition.retryAt call 9 arg 2", zeroed, "jitter spreads retries", 0},
		{"a catch ignores the status", "decide matchesProblem == 2", always, "", 1},
		{"retry.when is ignored", "decide machine.retry if 2", never, "", 25},
		{"an error in a handler is caught by its own try", "decide machine.handle assign 2 value 1", never, "", 2},
		{"a claim is late", "store/stream Streams.firstAbandoned >= 1 operand 2", scaled("3"), "a message that crashes five processes is dead-lettered", 0},
		{"a lease is renewed too late", "delivery Renewal.Step / 1", scaled("4"), "a call longer than a lease is made once", 2},
		{"an event is dropped because of a stale state", "worker Service.try assign 3", preceded("if len(c.History) == 0 {\n@{if 2 stmt 1}\n@{return 2}\n}"), "", 27},
		{"an unfinished decision is abandoned", "worker Service.continueLater && 1 operand 1", always, "another worker continues what an event started", 2},
		{"each part of a long decision acknowledges", "worker Service.commitsOf && 1 operand 2", always, "a decision larger than a commit is continued", 0},
		{"an event for an execution that has not started is dropped", "worker Service.load case 3 stmt 1", returned, "a message that cannot be handled is dead-lettered in time", 0},
		{"an undelivered result is forgotten", "executor outbox.answer if 1", never, "live processes keep their messages", 2},
		{"the lease of a waiting message is not renewed", "executor Inbox.Held call 4", zeroed, "a call longer than a lease is made once", 2},
		{"one crash too many before a dead letter", "delivery Poison < 1 operand 2", added("1"), "a message that crashes five processes is dead-lettered", 0},
		{"an early event is dead-lettered too soon", "delivery Policy.attempts call 2 arg 2", zeroed, "a message that cannot be handled is dead-lettered in time", 0},
		{"an ended execution is removed too early", "store Keep.expired call 1", scaled("2"), "ended executions are removed in time, and no others", 0},
		{"nested workflows are not counted", "decide evaluator.childStart + 1 operand 1", zeroed, "workflows nest up to the limit", 0},
		{"until: all ends like until: any", "decide machine.stop if 1", always, "a listen task receives exactly its events", 0},

		{"no failure event follows a dead letter", "delivery Consumer.Reject if 3", never, inEveryMessage, 0},
		{"an execution waits for a dead-lettered message", "decide machine.onDead case 1", never, inEveryMessage, 0},
		{"a dead-lettered start has no failure event", "worker Service.fault if 1", never, inEveryMessage, 0},
		{"a dead-lettered child loses its parent", "worker Service.stateWithoutHistory assign 4", removed, inEveryMessage, 0},
		{"an execution that was given up keeps its timers", "worker Service.releaseLeftovers assign 4", removed, inEveryMessage, 0},
		{"an execution that was given up keeps its children", "worker Service.children if 3", never, inEveryMessage, 0},
		{"an execution that was given up still listens", "worker Service.listens return 2 value 1", zeroed, inEveryMessage, 0},
		{"no failure event follows a dead-lettered timer", "timer Service.handle call 5 arg 4", zeroed, inEveryMessage, 0},
		{"the number of retries is not counted", "decide machine.onRetried assign 5", removed, inEveryMessage, 0},
		{"only the first deferred event is handled", "decide machine.onResumed for 1", replaced("(@)[:min(1, len(@))]"), "an execution is suspended while its tasks end, and resumed", 0},
		{"a suspended execution loses events", "decide machine.handler return 11", returned, inEveryMessage, 0},
		{"a suspended execution defers its cancellation", "decide machine.handler return 6", preceded("@{return 11}"), inEveryMessage, 0},
		{"only the first page of listeners receives an event", "store Store.EachListener return 4 value 1", always, "live processes keep their messages", 1},
		{"housekeeping continues at the previous tenant's position", ". housekeeping.forget assign 6 value 2", replaced("@{assign 6 target 2}"), "the newest executions of each tenant are kept", 0},
		{"definitions are those of the previous tenant", "worker round.end call 3", removed, "tenants share nothing", 0},

		{"a request is identified only by its entry id", "executor addressOf literal 1 value 1", zeroed, "identical tenants share nothing", 0},
		{"a state is cached only by its execution id", "worker Cache.take literal 1 value 1; worker Cache.put literal 1 value 1", zeroed, "tenants have executions with the same ids", 1},
		{"leases are renewed for one tenant only", "store/stream ByOwner literal 2 value 1", zeroed, "tenants share nothing", 0},
	}
}
