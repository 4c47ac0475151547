// Package quiet keeps Bubbletea from querying the terminal for its colours at startup. It does so in
// every program that links it, and waits five seconds if the terminal does not reply. Packages that
// import bubbletea also import quiet. This works because Go initializes independent packages in the
// order of their paths.
package quiet

import "github.com/charmbracelet/lipgloss"

var _ = handleResponse()

// answered answers the query in advance; package tui does not need the answer.
func handleResponse() bool {
	lipgloss.SetHasDarkBackground(true)
	return true
}
