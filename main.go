// Command flunq runs, checks and serves durable workflows written in the CNCF
// Serverless Workflow DSL (Open Workflow Specification).
package main

import (
	"os"

	"flunq.io/flunq/cmd"
)

func main() { os.Exit(cmd.Main()) }
