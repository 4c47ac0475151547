// Package quiet keeps a program from asking the terminal for its colours at startup. Bubbletea asks
// in every program that it is linked into, and waits five seconds if the terminal does not answer.
// Packages that import bubbletea also import quiet. This works because Go initializes independent
// packages in the order of their paths.
package quiet

import "github.com/charmbracelet/lipgloss"

var _ = answered()

// answered answers the query in advance; tui does not need the answer.
func answered() bool {
	lipgloss.SetHasDarkBackground(true)
	return true
}
