package cmd

import (
	_ "embed"

	"github.com/spf13/cobra"
)

// The tutorials. A test runs their examples.
var (
	//go:embed help/dsl.txt
	dslTutorial string
	//go:embed help/mocks.txt
	mocksTutorial string
	//go:embed help/tests.txt
	testsTutorial string
)

// tutorials are the help pages that teach how to write workflows.
func tutorials() []*cobra.Command {
	return []*cobra.Command{
		{Use: "dsl", Short: "Learn to write workflows", Long: dslTutorial},
		{Use: "mocks", Short: "Run workflows without their services", Long: mocksTutorial},
		{Use: "tests", Short: "Test workflows", Long: testsTutorial},
	}
}
