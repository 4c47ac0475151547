// Command flunq runs, checks and serves durable workflows written in the CNCF
// Serverless Workflow DSL (Open Workflow Specification).
package main

import (
	"os"
	_ "time/tzdata" // an image from scratch has no time zones

	"flunq.io/flunq/cmd"
)

func main() { os.Exit(cmd.Main()) }
