// Package quiet keeps commands from asking the terminal for its colours before they
// have begun: bubbletea does so in each program that it is linked into, and where a
// terminal does not answer, everything waits for five seconds. It has to be imported
// by whatever imports bubbletea, and works since packages that need nothing else of
// each other are initialized in the order of their paths.
package quiet

import "github.com/charmbracelet/lipgloss"

var _ = answered()

// answered answers the question in advance; tui draws without the answer.
func answered() bool {
	lipgloss.SetHasDarkBackground(true)
	return true
}
