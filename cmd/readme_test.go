package cmd_test

import (
	"os"
	"strings"
	"testing"
)

// The README contains the table of flunq ctk, transposed.
func TestReadmeShowsConformance(t *testing.T) {
	t.Parallel()
	table, _, code := flunq(t, nil, "ctk")
	if code != 0 {
		t.Fatalf("code %d", code)
	}
	var rows [][]string
	for line := range strings.Lines(table) {
		for i, cell := range strings.Fields(line) {
			if i == len(rows) {
				rows = append(rows, nil)
			}
			rows[i] = append(rows[i], cell)
		}
	}
	var want strings.Builder
	for i, row := range rows {
		want.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			want.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), want.String()) {
		t.Errorf("README.md does not have\n%s", want.String())
	}
}
